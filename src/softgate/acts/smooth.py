"""Smooth self-gated functions: the GELU, SiLU and Mish family."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from softgate.acts.parts import widened
from softgate.acts.spec import Activation

_INF = math.inf
_SQRT_HALF = math.sqrt(0.5)
_BELL = 1.0 / math.sqrt(2.0 * math.pi)
# Bounds beyond which the tails of every float64 function here have underflowed; an argument clamped to them keeps
# infinity times zero, which is NaN, out of the formulas. Formulas work in place where they can: fresh memory costs more
# than arithmetic.
_GAUSS_FAR = 40.0
_LOGISTIC_FAR = 800.0
_TANH_GELU_FAR = 30.0


# --- GELU -------------------------------------------------------------------------------------------------------------


@widened
def _gelu_value(x: Tensor) -> Tensor:
    # erfc keeps the negative tail that 1 + erf cancels away.
    y = x.clamp(min=-_GAUSS_FAR)
    return (y * -_SQRT_HALF).erfc_().mul_(0.5).mul_(y)


@widened
def _gelu_slope(x: Tensor) -> Tensor:
    y = x.clamp(-_GAUSS_FAR, _GAUSS_FAR)
    bell = y.square().mul_(-0.5).exp_()
    # Not addcmul: it has no batching rule, and vmap would fall back to a loop.
    return (y * -_SQRT_HALF).erfc_().mul_(0.5).add_(bell * y, alpha=_BELL)


@widened
def _gelu_curvature(x: Tensor) -> Tensor:
    square = x.clamp(-_GAUSS_FAR, _GAUSS_FAR).square()
    return torch.exp(square * -0.5) * (2.0 - square) * _BELL


def _gelu_oracle(mp: Any, x: Any) -> Any:
    return x * mp.erfc(-x / mp.sqrt(mp.mpf(2))) / 2


@widened
def _gelu_10_value(x: Tensor) -> Tensor:
    return _gelu_value(x).clamp(-10.0, 10.0)


# GELU of a float exceeds 10 exactly where the float does: 10 - GELU(10) is 8e-23. Its minimum never meets -10.
@widened
def _gelu_10_slope(x: Tensor) -> Tensor:
    return _gelu_slope(x).masked_fill(x > 10.0, 0.0)


@widened
def _gelu_10_curvature(x: Tensor) -> Tensor:
    return _gelu_curvature(x).masked_fill(x > 10.0, 0.0)


def _gelu_10_oracle(mp: Any, x: Any) -> Any:
    y = _gelu_oracle(mp, x)
    return y if y <= 10 else mp.mpf(10)


_TANH_LINEAR = 2.0 * math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715 * _TANH_LINEAR


@widened
def _gelu_tanh_value(x: Tensor) -> Tensor:
    # (1 + tanh(u)) / 2 is sigmoid(2u), which does not cancel.
    y = x.clamp(-_TANH_GELU_FAR, _TANH_GELU_FAR)
    gate = torch.sigmoid(y.square().mul_(_TANH_CUBIC).add_(_TANH_LINEAR).mul_(y))
    return gate * x.clamp(min=-_TANH_GELU_FAR)


@widened
def _gelu_tanh_slope(x: Tensor) -> Tensor:
    y = x.clamp(-_TANH_GELU_FAR, _TANH_GELU_FAR)
    square = y.square()
    z = (square * _TANH_CUBIC + _TANH_LINEAR) * y
    return (torch.sigmoid(-z) * y * (square * (3.0 * _TANH_CUBIC) + _TANH_LINEAR) + 1.0) * torch.sigmoid(z)


@widened
def _gelu_tanh_curvature(x: Tensor) -> Tensor:
    y = x.clamp(-_TANH_GELU_FAR, _TANH_GELU_FAR)
    square = y.square()
    z = (square * _TANH_CUBIC + _TANH_LINEAR) * y
    dz = square * (3.0 * _TANH_CUBIC) + _TANH_LINEAR
    bend = dz * 2.0 + square * (6.0 * _TANH_CUBIC) - torch.tanh(z * 0.5) * y * dz.square()
    return torch.sigmoid(z) * torch.sigmoid(-z) * bend


def _gelu_tanh_oracle(mp: Any, x: Any) -> Any:
    u = mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x * x * x)
    return x / (1 + mp.exp(-2 * u))


GELU = Activation(
    name="gelu",
    title="Gaussian error linear unit",
    formula="x * Phi(x)",
    latex=r"x\,\Phi(x)=\tfrac{x}{2}\operatorname{erfc}(-x/\sqrt2)",
    value=_gelu_value,
    slope=_gelu_slope,
    curvature=_gelu_curvature,
    oracle=_gelu_oracle,
    aliases=("gelu_python", "gelu_erf", "gelu_exact"),
    check_points=(-37.0, -13.0, -8.3, -5.0, -2.0, -math.sqrt(2), -0.75179152469356446, 0.0, 1.0, math.sqrt(2), 5.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=False,
    smoothness=_INF,
    lipschitz=1.1289041451851548,
    zeros=((0.0, 0.0),),
    minimum=-0.16997120747990366,
    argmin=-0.75179152469356446,
    self_gated=True,
    reference="Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, arXiv:1606.08415",
)

GELU_10 = Activation(
    name="gelu_10",
    title="GELU clipped to [-10, 10]",
    formula="min(max(x * Phi(x), -10), 10)",
    latex=r"\min(\max(x\,\Phi(x), -10), 10)",
    value=_gelu_10_value,
    slope=_gelu_10_slope,
    curvature=_gelu_10_curvature,
    oracle=_gelu_10_oracle,
    aliases=("gelu_clipped", "clipped_gelu"),
    kinks=(10.0,),
    check_points=(-37.0, -5.0, -math.sqrt(2), -0.75179152469356446, 0.0, math.sqrt(2), 5.0, 10.0, 11.0),
    limits=(0.0, 10.0),
    slope_limits=(0.0, 0.0),
    monotone=False,
    smoothness=0,
    lipschitz=1.1289041451851548,
    zeros=((0.0, 0.0),),
    minimum=-0.16997120747990366,
    argmin=-0.75179152469356446,
    self_gated=False,
    reference="Wu et al., Integer Quantization for Deep Learning Inference, 2020, arXiv:2004.09602",
)

GELU_TANH = Activation(
    name="gelu_tanh",
    title="GELU, tanh form",
    formula="0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))",
    latex=r"\tfrac{x}{2}\left(1+\tanh\left(\sqrt{2/\pi}\,(x+0.044715\,x^3)\right)\right)",
    value=_gelu_tanh_value,
    slope=_gelu_tanh_slope,
    curvature=_gelu_tanh_curvature,
    oracle=_gelu_tanh_oracle,
    aliases=("gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate"),
    check_points=(-21.0, -8.3, -5.0, -1.4185040087908284, -0.75246142207101626, 0.0, 1.0, 1.4185040087908284, 5.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=False,
    smoothness=_INF,
    lipschitz=1.1289930686587718,
    zeros=((0.0, 0.0),),
    minimum=-0.17004075057125405,
    argmin=-0.75246142207101626,
    self_gated=True,
    reference="Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, arXiv:1606.08415",
)


# --- x times a logistic sigmoid ---------------------------------------------------------------------------------------


def _swish_slope(z: Tensor) -> Tensor:
    """d(z s(z))/dz; sigmoid(-z) and not 1 - sigmoid(z), which cancels for large z."""
    z = z.clamp(-_LOGISTIC_FAR, _LOGISTIC_FAR)
    return (torch.sigmoid(-z) * z).add_(1.0) * torch.sigmoid(z)


def _swish_curvature(z: Tensor) -> Tensor:
    z = z.clamp(-_LOGISTIC_FAR, _LOGISTIC_FAR)
    return torch.sigmoid(z) * torch.sigmoid(-z) * (2.0 - torch.tanh(z * 0.5) * z)


@widened
def _silu_value(x: Tensor) -> Tensor:
    return F.silu(x.clamp(min=-_LOGISTIC_FAR))


@widened
def _silu_slope(x: Tensor) -> Tensor:
    return _swish_slope(x)


@widened
def _silu_curvature(x: Tensor) -> Tensor:
    return _swish_curvature(x)


def _silu_oracle(mp: Any, x: Any) -> Any:
    return x / (1 + mp.exp(-x))


@widened
def _gelu_sigmoid_value(x: Tensor, beta: float = 1.702) -> Tensor:
    y = x.clamp(min=-_LOGISTIC_FAR / beta)
    return torch.sigmoid(y * beta) * y


@widened
def _gelu_sigmoid_slope(x: Tensor, beta: float = 1.702) -> Tensor:
    return _swish_slope(x * beta)


@widened
def _gelu_sigmoid_curvature(x: Tensor, beta: float = 1.702) -> Tensor:
    return _swish_curvature(x * beta) * beta


def _gelu_sigmoid_oracle(mp: Any, x: Any, beta: float = 1.702) -> Any:
    return x / (1 + mp.exp(-mp.mpf(beta) * x))


GELU_SIGMOID = Activation(
    name="gelu_sigmoid",
    title="GELU, sigmoid form",
    formula="x * sigmoid(beta * x)",
    latex=r"x\,\sigma(\beta x),\quad \beta = 1.702",
    value=_gelu_sigmoid_value,
    slope=_gelu_sigmoid_slope,
    curvature=_gelu_sigmoid_curvature,
    oracle=_gelu_sigmoid_oracle,
    params={"beta": 1.702},
    aliases=("quick_gelu", "quickgelu", "gelu_quick"),
    check_points=(-400.0, -50.0, -1.4097281319127307, -0.75115425544128897, 0.0, 1.0, 1.4097281319127307, 20.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=False,
    smoothness=_INF,
    lipschitz=1.0998393201288669,
    zeros=((0.0, 0.0),),
    minimum=-0.16361018963635359,
    argmin=-0.75115425544128897,
    self_gated=True,
    reference="Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, arXiv:1606.08415",
)

SILU = Activation(
    name="silu",
    title="Sigmoid linear unit",
    formula="x * sigmoid(x)",
    latex=r"x\,\sigma(x)",
    value=_silu_value,
    slope=_silu_slope,
    curvature=_silu_curvature,
    oracle=_silu_oracle,
    aliases=("swish",),
    check_points=(-700.0, -50.0, -2.3993572805154677, -1.2784645427610738, 0.0, 1.0, 2.3993572805154677, 36.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=False,
    smoothness=_INF,
    lipschitz=1.0998393201288669,
    zeros=((0.0, 0.0),),
    minimum=-0.27846454276107380,
    argmin=-1.2784645427610738,
    self_gated=True,
    reference="Elfwing et al., Sigmoid-Weighted Linear Units for Neural Network Function Approximation, 2017, "
    "arXiv:1702.03118",
)


# --- Mish -------------------------------------------------------------------------------------------------------------


def _mish_open(dtype: torch.dtype) -> float:
    """Up to here the square of exp(x) is a finite number; the gate has long rounded to one."""
    return 0.5 * math.log(torch.finfo(dtype).max) - 1.0


def _mish_parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x and e = exp(x) kept in range, and D = e^2 + 2e + 2, with tanh(log(1 + e)) = e (e + 2) / D: no cancellation."""
    y = x.clamp(-_LOGISTIC_FAR, _mish_open(x.dtype))
    e = torch.exp(y)
    return y, e, (e + 2.0) * e + 2.0


@widened
def _mish_value(x: Tensor) -> Tensor:
    _, e, d = _mish_parts(x)
    return (e + 2.0) * e / d * x.clamp(min=-_LOGISTIC_FAR)


@widened
def _mish_slope(x: Tensor) -> Tensor:
    y, e, d = _mish_parts(x)
    return (e + 2.0) * e / d + (e / d) * ((e + 1.0) / d) * y * 4.0


@widened
def _mish_curvature(x: Tensor) -> Tensor:
    y, e, d = _mish_parts(x)
    gate_slope = (e / d) * ((e + 1.0) / d) * 4.0
    log_slope = ((e * 3.0 + 10.0) * e + 6.0) / d / (e + 1.0) - 2.0
    return (gate_slope * (log_slope * y + 2.0)).masked_fill(x > 2.0 * _mish_open(x.dtype), 0.0)


def _mish_oracle(mp: Any, x: Any) -> Any:
    # log(1 + exp(x)), turned so that its derivatives do not cancel either.
    softplus = x + mp.log1p(mp.exp(-x)) if x > 0 else mp.log1p(mp.exp(x))
    return x * mp.tanh(softplus)


MISH = Activation(
    name="mish",
    title="Mish",
    formula="x * tanh(log(1 + exp(x)))",
    latex=r"x\tanh(\ln(1+e^x))",
    value=_mish_value,
    slope=_mish_slope,
    curvature=_mish_curvature,
    oracle=_mish_oracle,
    check_points=(-700.0, -20.0, -2.2563763963607931, -1.1924312145154952, 0.0, 1.0, 1.4905711794854285, 20.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=False,
    smoothness=_INF,
    lipschitz=1.0884981612517279,
    zeros=((0.0, 0.0),),
    minimum=-0.30884341301725041,
    argmin=-1.1924312145154952,
    self_gated=True,
    reference="Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019, arXiv:1908.08681",
)
