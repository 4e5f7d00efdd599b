"""The oracle: two precisions that agree, one rounding, and no trust in what surrounds it."""

import math
import types

import mpmath
import pytest
import torch

from softgate.acts import get
from softgate.numerics import derivatives, gated_derivatives, reference, round_to

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
MP = mpmath.MPContext()
MP.prec = 600


def stand_in(oracle):
    return types.SimpleNamespace(name="stand-in", params={}, oracle=oracle)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_agrees_with_torchs_of_float64(dtype):
    """torch rounds a float64 to a narrower type once, ties to even, subnormals included."""
    generator = torch.Generator().manual_seed(3)
    scale = torch.randint(-170, 135, (4000,), generator=generator).double()
    x = torch.randn(4000, dtype=torch.float64, generator=generator) * torch.exp2(scale)
    got = torch.tensor([round_to(MP.mpf(v), dtype) for v in x.tolist()], dtype=torch.float64)
    assert torch.equal(got, x.to(dtype).double())


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_at_the_edges_of_a_format(dtype):
    info = torch.finfo(dtype)
    smallest = MP.mpf(info.smallest_normal) * info.eps
    largest = MP.mpf(info.max)
    spacing = largest - MP.mpf(
        torch.nextafter(torch.tensor(info.max, dtype=dtype), torch.tensor(0.0, dtype=dtype)).item()
    )
    tiny = MP.ldexp(1, -190)
    assert round_to(smallest, dtype) == float(smallest)
    assert round_to(smallest / 2, dtype) == 0.0
    assert round_to(smallest / 2 * (1 + tiny), dtype) == float(smallest)
    assert round_to(smallest * 3 / 2, dtype) == float(2 * smallest)
    assert round_to(smallest / 4 * 3, dtype) == float(smallest)
    assert round_to(smallest / 5, dtype) == 0.0
    assert round_to(largest, dtype) == info.max
    assert round_to(largest + spacing / 2 * (1 - tiny), dtype) == info.max
    assert round_to(largest + spacing / 2, dtype) == math.inf
    assert round_to(-largest * 4, dtype) == -math.inf
    assert round_to(1 + MP.mpf(info.eps) / 2, dtype) == 1.0
    assert round_to(1 + MP.mpf(info.eps) / 2 * (1 + tiny), dtype) == 1.0 + info.eps
    assert round_to(1 + MP.mpf(info.eps) * 3 / 2, dtype) == 1.0 + 2 * info.eps


def test_rounding_of_what_is_no_ordinary_number():
    assert round_to(MP.mpf(0), torch.float32) == 0.0
    assert round_to(MP.inf, torch.float16) == math.inf
    assert math.isnan(round_to(MP.nan, torch.float64))
    assert math.copysign(1, round_to(-MP.ldexp(1, -(10**9)), torch.float64)) == -1.0
    assert round_to(MP.ldexp(1, 10**9), torch.float64) == math.inf


def test_rounding_is_single():
    """1 + 2^-24 + 2^-60 lies above a tie of float32; through float64 it would become the tie and round down."""
    x = 1 + MP.ldexp(1, -24) + MP.ldexp(1, -60)
    assert round_to(x, torch.float32) == 1 + 2.0**-23
    assert torch.tensor(float(x), dtype=torch.float64).float().item() == 1.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_reference_keeps_shape_and_gives_the_dtype(dtype):
    x = torch.tensor([[-1.0, 0.0], [math.nan, math.inf]])
    got = reference(get("gelu"), x, 1, dtype)
    assert got.dtype == dtype
    assert got.shape == x.shape
    assert got.isnan().tolist() == [[False, False], [True, False]]
    assert got[1, 1] == 1
    assert reference(get("gelu"), torch.zeros(0, 3), 0, dtype).shape == (0, 3)


def test_reference_in_the_subnormal_range():
    """GELU falls below 2^-149 at -14.308 and rounds to zero from -14.356 on."""
    got = reference(get("gelu"), [-14.30, -14.31, -14.35, -14.36], 0, torch.float32)
    assert (got / -(2.0**-149)).tolist() == [1.0, 1.0, 1.0, 0.0]


def test_reference_takes_parameters():
    assert reference(get("elu"), [-1.0], alpha=2.0).item() == pytest.approx(2 * math.expm1(-1), rel=1e-15, abs=0)


def test_more_precision_is_used_where_an_oracle_cancels():
    """(1 + x^2) - 1 at 1e-150 needs more than a thousand bits."""
    found = derivatives(stand_in(lambda mp, x: (1 + x * x) - 1), 1e-150, 2)
    assert float(found[0]) == pytest.approx(1e-300, rel=1e-15, abs=0)
    assert [float(d) for d in found[1:]] == pytest.approx([2e-150, 2.0], rel=1e-15, abs=0)


def test_two_zeros_that_lost_the_same_digits_do_not_agree():
    """The second derivative of log(1 + exp(x)), taken naively, is zero at every precision one would begin with."""
    found = derivatives(stand_in(lambda mp, x: mp.log1p(mp.exp(x))), 150.5, 2)
    assert float(found[2]) == pytest.approx(math.exp(-150.5), rel=1e-12, abs=0)


def test_an_oracle_that_never_agrees_is_an_error():
    drifting = stand_in(lambda mp, x: x + mp._mp.prec)
    with pytest.raises(ArithmeticError, match=r"stand-in at 1\.0"):
        derivatives(drifting, 1.0, 0)


def test_nan_has_no_oracle():
    with pytest.raises(ValueError, match="NaN"):
        derivatives(get("gelu"), math.nan)


def test_global_precision_of_mpmath_is_neither_used_nor_changed():
    with mpmath.workprec(12):
        coarse = derivatives(get("gelu"), -3.0)
        assert mpmath.mp.prec == 12
        assert float(coarse[0] * 3) == pytest.approx(3 * float(coarse[0]), rel=1e-15, abs=0)
    assert coarse == derivatives(get("gelu"), -3.0)


def test_constant_pieces_have_derivatives_of_zero():
    assert derivatives(get("relu6"), 9.0, 3) == (6, 0, 0, 0)
    assert derivatives(get("relu"), -9.0, 3) == (0, 0, 0, 0)


def test_pieces_are_differentiated_on_their_own_side():
    below, above = -5e-324, 5e-324
    assert float(derivatives(get("selu"), below)[1]) == pytest.approx(1.7580993408473769, rel=1e-15, abs=0)
    assert float(derivatives(get("selu"), above)[1]) == 1.0507009873554805
    assert derivatives(get("relu2"), above)[1] == 2 * mpmath.mpf(above)


def test_gated_derivatives_of_a_known_product():
    found = gated_derivatives(get("geglu"), -0.7, 3.0)
    plain = derivatives(get("gelu"), -0.7)
    assert float(found["value"]) == pytest.approx(3 * float(plain[0]), rel=1e-15, abs=0)
    assert float(found["gate"]) == pytest.approx(3 * float(plain[1]), rel=1e-15, abs=0)
    assert float(found["up"]) == pytest.approx(float(plain[0]), rel=1e-15, abs=0)
    assert float(found["gate_gate"]) == pytest.approx(3 * float(plain[2]), rel=1e-15, abs=0)
    assert float(found["gate_up"]) == pytest.approx(float(plain[1]), rel=1e-15, abs=0)
    assert found["up_up"] == 0


def test_gated_clamps_stop_the_derivatives():
    beyond = gated_derivatives(get("swiglu_oai"), 8.0, 9.0)
    assert float(beyond["value"]) == pytest.approx(7 / (1 + math.exp(-7 * 1.702)) * 8, rel=1e-15, abs=0)
    assert all(beyond[key] == 0 for key in ("gate", "up", "gate_gate", "gate_up", "up_up"))
