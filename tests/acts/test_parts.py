"""The shared pieces: 16-bit input is rounded once, and no NaN is lost."""

import math

import pytest
import torch

from softgate.acts.parts import flat, step, widened

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_step_is_one_above_zero_only(dtype):
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    x = torch.tensor([-math.inf, -1.0, -smallest, -0.0, 0.0, smallest, 0.5, 3.0, math.inf], dtype=dtype)
    assert step(x).tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert step(x).dtype == dtype
    assert step(torch.tensor([math.nan], dtype=dtype)).isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_flat_is_zero_but_for_nan(dtype):
    x = torch.tensor([-math.inf, -1.0, 0.0, 7.0, math.inf], dtype=dtype)
    assert flat(x).tolist() == [0] * 5
    assert flat(torch.tensor([math.nan], dtype=dtype)).isnan().all()


def test_widened_computes_in_float32_and_only_where_needed():
    seen = []

    @widened
    def formula(x, scale=1.0):
        seen.append(x.dtype)
        return x * scale

    for dtype in DTYPES:
        got = formula(torch.ones(2, dtype=dtype), scale=3.0)
        assert got.dtype == dtype
        assert got.tolist() == [3.0, 3.0]
    assert seen == [torch.float64, torch.float32, torch.float32, torch.float32]


def test_widened_is_transparent_to_autograd():
    x = torch.tensor([2.0], dtype=torch.bfloat16, requires_grad=True)
    widened(lambda t: t * t)(x).backward()
    assert x.grad.dtype == torch.bfloat16
    assert x.grad.item() == 4.0
