"""The formulas against torch's own functions where those are right, and at the edges, where they set the convention."""

import math

import pytest
import torch
from torch.nn import functional as F

from softgate.acts import get, names

F64 = torch.float64


def hf_laplace(x, mu=0.707107, sigma=0.282095):
    return 0.5 * (1.0 + torch.erf((x - mu).div(sigma * math.sqrt(2.0))))


NATIVE = {
    "relu": F.relu,
    "relu2": lambda x: torch.square(F.relu(x)),
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.25, dtype=x.dtype)),
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "laplace": hf_laplace,
    "gelu_10": lambda x: torch.clip(F.gelu(x), -10, 10),
    "sqrtsoftplus": lambda x: F.softplus(x).sqrt(),
    "identity": lambda x: x,
}
# Hugging Face's own xielu is clamped at -1e-6, so that its value and slope at zero are wrong: it has a test of its own.
assert set(NATIVE) == set(names()) - {"xielu"}


def gradient(function, x):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]


@pytest.mark.parametrize("name", NATIVE)
def test_value_and_slope_agree_with_torch(name):
    x = torch.linspace(-3, 12, 601, dtype=F64) + 1 / 1024
    record, native = get(name), NATIVE[name]
    # torch's hardsigmoid has a slope of one sixth in single precision, whatever the dtype.
    torch.testing.assert_close(record.value(x), native(x), rtol=1e-7, atol=1e-12)
    torch.testing.assert_close(record.slope(x), gradient(native, x), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("name", [n for n in NATIVE if get(n).kinks])
def test_slope_at_kinks_is_torchs(name, dtype):
    record = get(name)
    # A repeated point, because torch's vectorised and its scalar code are two implementations.
    for kink in record.kinks:
        x = torch.full((19,), kink, dtype=dtype)
        torch.testing.assert_close(record.slope(x), gradient(NATIVE[name], x), rtol=1e-7, atol=0)
        torch.testing.assert_close(record.slope(x), gradient(NATIVE[name], x)[0].expand(19), rtol=1e-7, atol=0)


@pytest.mark.parametrize(
    ("name", "point", "slope"),
    [
        ("relu", 0.0, 0.0),
        ("relu", -0.0, 0.0),
        ("relu6", 0.0, 0.0),
        ("relu6", 6.0, 0.0),
        ("leaky_relu", 0.0, 0.01),
        ("elu", 0.0, 1.0),
        ("hardswish", -3.0, 0.0),
        ("hardswish", 3.0, 1.0),
        ("hardsigmoid", -3.0, 0.0),
        ("hardsigmoid", 3.0, 0.0),
        ("gelu_10", 10.0, 1.0),
        ("xielu", 0.0, 0.5),
        ("softplus", 0.0, 0.5),
        ("sqrtsoftplus", 0.0, 0.25 / math.sqrt(math.log(2))),
    ],
)
def test_slope_at_edges_is_the_documented_one(name, point, slope):
    assert get(name).slope(torch.tensor([point], dtype=F64)).item() == pytest.approx(slope, rel=1e-15, abs=0)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.7])
def test_elu_at_zero_with_other_alphas(alpha):
    x = torch.tensor([0.0, -1.0, 2.0], dtype=F64)
    for name, native in (("elu", F.elu), ("celu", F.celu)):
        torch.testing.assert_close(get(name).slope(x, alpha=alpha), gradient(lambda t, f=native: f(t, alpha), x))


def test_xielu_is_hugging_faces_away_from_zero_and_right_at_zero():
    x = torch.tensor([-3.0, -1.0, -1e-5, 1e-7, 0.5, 2.0], dtype=F64)
    clamped = torch.min(x, torch.tensor(-1e-6, dtype=F64))
    hugging_face = torch.where(x > 0, 0.8 * x * x + 0.5 * x, (torch.expm1(clamped) - x) * 0.8 + 0.5 * x)
    torch.testing.assert_close(get("xielu").value(x), hugging_face, rtol=1e-12, atol=1e-16)
    near = torch.tensor([0.0, -1e-9, -1e-12], dtype=F64)
    torch.testing.assert_close(get("xielu").value(near), 0.5 * near, rtol=1e-8, atol=0)
    torch.testing.assert_close(get("xielu").slope(near), torch.full((3,), 0.5, dtype=F64), rtol=1e-8, atol=0)


def test_prelu_takes_one_weight_a_channel():
    x = torch.randn(2, 3, 5, dtype=F64, generator=torch.Generator().manual_seed(0))
    weight = torch.tensor([0.1, 0.2, 0.3], dtype=F64)
    got = get("prelu").value(x, weight=weight.view(3, 1))
    assert torch.equal(got, F.prelu(x, weight))


# --- public bug reports: what torch or a formula typed by hand gets wrong ---------------------------------------------


@pytest.mark.parametrize(("x", "right"), [(-5.0, -1.43326e-6), (-5.5, -1.04443e-7), (-6.0, -5.9195e-9)])
def test_gelu_keeps_its_tail_in_float32(x, right):
    got = get("gelu").value(torch.full((32,), x))
    torch.testing.assert_close(got, torch.full((32,), right), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("x", "right"), [(-5.0, -2.2918e-7), (-5.5, -5.93e-9)])
def test_tanh_gelu_keeps_its_tail_in_float32(x, right):
    assert get("gelu_tanh").value(torch.tensor([x])).item() == pytest.approx(right, rel=1e-3, abs=0)
    assert get("gelu_tanh").slope(torch.tensor([-5.5])).item() == pytest.approx(-4.68e-8, rel=2e-3, abs=0)


def test_gelu_keeps_its_tail_in_float64():
    assert get("gelu").value(torch.tensor([-9.0], dtype=F64)).item() == pytest.approx(-1.0157e-18, rel=1e-4, abs=0)


def test_no_slope_vanishes_where_the_function_lives():
    """torch's slope is exactly zero below -6.15 (GELU) and -5.06 (tanh form) in float32; the true one is not."""
    x = torch.linspace(-12, -1, 500)
    assert (get("gelu").slope(x) != 0).all()
    assert (get("gelu_tanh").slope(x[x > -9.9]) != 0).all()


def test_softplus_needs_no_threshold():
    value = get("softplus").value
    huge = value(torch.tensor([0.5, -1.0, 2.0]), beta=1e30, threshold=1e30)
    assert huge.tolist() == [0.5, 0.0, 2.0]
    assert value(torch.tensor([100.0]), threshold=1e9).item() == 100.0
    assert get("softplus").slope(torch.tensor([100.0]), threshold=1e9).item() == 1.0
    assert value(torch.tensor([0.05]), beta=10.0, threshold=0.4).item() == pytest.approx(0.0974, abs=5e-5)


def test_silu_has_a_finite_slope_where_exp_overflows():
    for dtype, x in ((torch.float32, -89.0), (torch.float16, -12.0), (torch.bfloat16, -7.0)):
        assert get("silu").slope(torch.tensor([x], dtype=dtype)).isfinite().all()
    assert get("silu").value(torch.tensor([-12.0], dtype=torch.float16)).item() == pytest.approx(
        -7.37e-5, rel=2e-3, abs=0
    )


@pytest.mark.parametrize("x", [147.0, 148.0, -148.0, 60000.0])
def test_tanh_gelu_in_half_precision_has_a_slope(x):
    assert get("gelu_tanh").slope(torch.tensor([x], dtype=torch.float16)).item() == (1.0 if x > 0 else 0.0)


@pytest.mark.parametrize("alpha", [-2.0, 2.0])
def test_elu_slope_goes_by_the_input_not_the_output(alpha):
    got = get("elu").slope(torch.tensor([-2.0], dtype=F64), alpha=alpha).item()
    assert got == pytest.approx(alpha * math.exp(-2.0), rel=1e-15, abs=0)


def test_elu_of_a_tiny_number_is_that_number():
    assert get("elu").value(torch.tensor([-1e-8])).item() == pytest.approx(-1e-8, rel=1e-7, abs=0)


def test_zero_keeps_no_trace_of_infinity():
    """relu keeps the sign of zero, as torch does; no test may compare signs of zero, so this one compares with it."""
    x = torch.tensor([-0.0, 0.0])
    assert torch.equal(torch.signbit(get("relu").value(x)), torch.signbit(F.relu(x)))
