"""Units in the last place, down to the smallest subnormal; nothing wrong counts as none."""

import math

import pytest
import torch

from softgate.numerics import distance, unit

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def numbers(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unit_is_the_step_to_the_next_number(dtype):
    info = torch.finfo(dtype)
    normal = numbers(1.0, 1.5, info.smallest_normal, info.smallest_normal * 3, 0.1, 100.0, info.max / 8, dtype=dtype)
    step = torch.nextafter(normal, torch.full_like(normal, math.inf)).double() - normal.double()
    assert torch.equal(unit(normal, dtype), step)
    assert torch.equal(unit(-normal, dtype), step)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unit_below_the_normal_range_is_the_smallest_subnormal(dtype):
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    x = numbers(0.0, -0.0, smallest, smallest * 3, info.smallest_normal / 2)
    assert unit(x, dtype).tolist() == [smallest] * 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_neighbours_are_one_apart(dtype):
    x = torch.linspace(-3, 3, 60, dtype=torch.float64).to(dtype)
    up = torch.nextafter(x, torch.full_like(x, math.inf))
    gap = distance(up, x)
    # Across a power of two the step belongs to the smaller side.
    assert ((gap == 1) | (gap == 0.5)).all()
    assert (gap == 1).sum() > 50
    assert torch.equal(distance(x, x), torch.zeros(60, dtype=torch.float64))


def test_fractions_of_a_unit_count_against_a_wider_reference():
    got = numbers(1.0, dtype=torch.float32)
    assert distance(got, numbers(1.0 + 0.25 * 2.0**-23)).item() == pytest.approx(0.25, rel=1e-9, abs=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_zero_that_should_be_a_number_is_huge(dtype):
    normal = torch.finfo(dtype).smallest_normal
    digits = 1 - math.log2(torch.finfo(dtype).eps)
    assert distance(numbers(0.0, dtype=dtype), numbers(1.5, dtype=dtype)).item() >= 2 ** (digits - 1)
    assert distance(numbers(1.5, dtype=dtype), numbers(0.0, dtype=dtype)).item() > 2 ** (digits - 1)
    assert distance(numbers(0.0, dtype=dtype), numbers(normal, dtype=dtype)).item() == 2 ** (digits - 1)


def test_signs_of_zero_do_not_count():
    assert distance(numbers(-0.0, dtype=torch.float32), numbers(0.0, dtype=torch.float32)).item() == 0


@pytest.mark.parametrize(
    ("got", "want", "apart"),
    [
        (math.nan, math.nan, 0.0),
        (math.nan, 1.0, math.inf),
        (1.0, math.nan, math.inf),
        (math.inf, math.inf, 0.0),
        (-math.inf, -math.inf, 0.0),
        (math.inf, 1.0, math.inf),
        (1.0, math.inf, math.inf),
        (math.inf, -math.inf, math.inf),
        (math.nan, math.inf, math.inf),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_number_is_infinitely_far_from_what_is_one(got, want, apart, dtype):
    assert distance(numbers(got, dtype=dtype), numbers(want, dtype=dtype)).item() == apart


def test_unequal_shapes_are_refused():
    with pytest.raises(ValueError, match="unequal shapes"):
        distance(torch.zeros(2), torch.zeros(1))
