"""Smooth monotone functions: sigmoid, tanh, softplus, its square root, and the Gaussian distribution of Mega."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from softgate.acts.parts import widened
from softgate.acts.spec import Activation

_INF = math.inf
# Beyond this many standard deviations the Gaussian bell has underflowed in float64.
_GAUSS_FAR = 40.0
# Below this log1p(w) is w to the last bit of float64.
_SOFTPLUS_TAIL = -40.0


@widened
def _sigmoid_slope(x: Tensor) -> Tensor:
    # sigmoid(-x) and not 1 - sigmoid(x), which cancels for large x.
    return torch.sigmoid(x) * torch.sigmoid(-x)


@widened
def _sigmoid_curvature(x: Tensor) -> Tensor:
    return -_sigmoid_slope(x) * torch.tanh(x * 0.5)


def _sigmoid_oracle(mp: Any, x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


@widened
def _tanh_slope(x: Tensor) -> Tensor:
    # 1 - tanh^2 would cancel for large |x|.
    return _sigmoid_slope(x * 2.0) * 4.0


@widened
def _tanh_curvature(x: Tensor) -> Tensor:
    return _tanh_slope(x) * torch.tanh(x) * -2.0


def _tanh_oracle(mp: Any, x: Any) -> Any:
    return mp.tanh(x)


def _softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    # maximum, because autograd halves its gradient at zero, where that of the absolute value is zero; half is right.
    return torch.log1p(torch.exp((x * beta).abs().neg())) / beta + torch.maximum(x, x.new_zeros(()))


@widened
def _softplus_value(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return _softplus(x, beta)


@widened
def _softplus_slope(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return torch.sigmoid(x * beta)


@widened
def _softplus_curvature(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return _sigmoid_slope(x * beta) * beta


def _softplus_oracle(mp: Any, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    # For positive x the plain log(1 + exp(x)) would have derivatives that cancel.
    z = mp.mpf(beta) * x
    return (z + mp.log1p(mp.exp(-z)) if z > 0 else mp.log1p(mp.exp(z))) / mp.mpf(beta)


def _root_tail(x: Tensor) -> Tensor:
    """exp(x / 2), to which sqrt(softplus(x)) tends: exp(x) itself underflows at half the distance.

    Clamped from above, because an infinity in the branch not taken would make the gradient NaN.
    """
    return torch.exp(x.clamp(max=_SOFTPLUS_TAIL) * 0.5)


@widened
def _sqrtsoftplus_value(x: Tensor) -> Tensor:
    return torch.where(x < _SOFTPLUS_TAIL, _root_tail(x), torch.sqrt(_softplus(x.clamp(min=_SOFTPLUS_TAIL))))


@widened
def _sqrtsoftplus_slope(x: Tensor) -> Tensor:
    y = x.clamp(min=_SOFTPLUS_TAIL)
    return torch.where(x < _SOFTPLUS_TAIL, _root_tail(x), torch.sigmoid(y) / torch.sqrt(_softplus(y))) * 0.5


@widened
def _sqrtsoftplus_curvature(x: Tensor) -> Tensor:
    y = x.clamp(min=_SOFTPLUS_TAIL)
    root = torch.sqrt(_softplus(y))
    slope = torch.sigmoid(y) / root * 0.5
    body = (_sigmoid_slope(y) * 0.5 - slope.square()) / root
    return torch.where(x < _SOFTPLUS_TAIL, _root_tail(x) * 0.25, body)


def _sqrtsoftplus_oracle(mp: Any, x: Any) -> Any:
    return mp.sqrt(_softplus_oracle(mp, x))


@widened
def _laplace_value(x: Tensor, mu: float = 0.707107, sigma: float = 0.282095) -> Tensor:
    return torch.erfc((mu - x) / (sigma * math.sqrt(2.0))) * 0.5


def _bell(x: Tensor, mu: float, sigma: float) -> tuple[Tensor, Tensor]:
    z = ((x - mu) / sigma).clamp(-_GAUSS_FAR, _GAUSS_FAR)
    return z, torch.exp(z.square() * -0.5) / (sigma * math.sqrt(2.0 * math.pi))


@widened
def _laplace_slope(x: Tensor, mu: float = 0.707107, sigma: float = 0.282095) -> Tensor:
    return _bell(x, mu, sigma)[1]


@widened
def _laplace_curvature(x: Tensor, mu: float = 0.707107, sigma: float = 0.282095) -> Tensor:
    z, bell = _bell(x, mu, sigma)
    return bell * z / -sigma


def _laplace_oracle(mp: Any, x: Any, mu: float = 0.707107, sigma: float = 0.282095) -> Any:
    return mp.erfc((mp.mpf(mu) - x) / (mp.mpf(sigma) * mp.sqrt(mp.mpf(2)))) / 2


SIGMOID = Activation(
    name="sigmoid",
    title="Logistic sigmoid",
    formula="1 / (1 + exp(-x))",
    latex=r"\frac{1}{1+e^{-x}}",
    value=torch.sigmoid,
    slope=_sigmoid_slope,
    curvature=_sigmoid_curvature,
    oracle=_sigmoid_oracle,
    aliases=("logistic",),
    check_points=(-700.0, -40.0, -1.0, 0.0, 1.0, 40.0),
    limits=(0.0, 1.0),
    slope_limits=(0.0, 0.0),
    monotone=True,
    smoothness=_INF,
    lipschitz=0.25,
    zeros=(),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="Cox, The Regression Analysis of Binary Sequences, 1958",
)

TANH = Activation(
    name="tanh",
    title="Hyperbolic tangent",
    formula="tanh(x)",
    latex=r"\tanh(x)",
    value=torch.tanh,
    slope=_tanh_slope,
    curvature=_tanh_curvature,
    oracle=_tanh_oracle,
    check_points=(-350.0, -20.0, -1.0, 0.0, 1.0, 20.0, 350.0),
    limits=(-1.0, 1.0),
    slope_limits=(0.0, 0.0),
    monotone=True,
    smoothness=_INF,
    lipschitz=1.0,
    zeros=((0.0, 0.0),),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="LeCun et al., Efficient BackProp, 1998",
)

SOFTPLUS = Activation(
    name="softplus",
    title="Softplus",
    formula="log(1 + exp(beta * x)) / beta",
    latex=r"\tfrac1\beta\ln(1+e^{\beta x})",
    value=_softplus_value,
    slope=_softplus_slope,
    curvature=_softplus_curvature,
    oracle=_softplus_oracle,
    # The threshold is accepted because torch's has one; it has no effect, because none is needed.
    params={"beta": 1.0, "threshold": 20.0},
    check_points=(-700.0, -40.0, -1.0, 0.0, 1.0, 20.1, 40.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=True,
    smoothness=_INF,
    lipschitz=1.0,
    zeros=(),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="Dugas et al., Incorporating Second-Order Functional Knowledge for Better Option Pricing, NeurIPS 2000",
)

SQRTSOFTPLUS = Activation(
    name="sqrtsoftplus",
    title="Square root of softplus",
    formula="sqrt(log(1 + exp(x)))",
    latex=r"\sqrt{\ln(1+e^x)}",
    value=_sqrtsoftplus_value,
    slope=_sqrtsoftplus_slope,
    curvature=_sqrtsoftplus_curvature,
    oracle=_sqrtsoftplus_oracle,
    check_points=(-1400.0, -700.0, -40.0, -1.0, 0.0, 0.92142250865535603, 1.0, 40.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 0.0),
    monotone=True,
    smoothness=_INF,
    lipschitz=0.31908634316947574,
    zeros=(),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="Hugging Face transformers 5.17.0, activations.py: the router score of DeepSeek V4",
)

LAPLACE = Activation(
    name="laplace",
    title="Laplace, a shifted Gaussian distribution function",
    formula="(1 + erf((x - mu) / (sigma * sqrt(2)))) / 2",
    latex=r"\tfrac12\left(1+\operatorname{erf}\frac{x-\mu}{\sigma\sqrt2}\right)",
    value=_laplace_value,
    slope=_laplace_slope,
    curvature=_laplace_curvature,
    oracle=_laplace_oracle,
    params={"mu": 0.707107, "sigma": 0.282095},
    check_points=(-9.0, -1.0, 0.0, 0.707107 - 0.282095, 0.707107, 0.707107 + 0.282095, 3.0),
    limits=(0.0, 1.0),
    slope_limits=(0.0, 0.0),
    monotone=True,
    smoothness=_INF,
    lipschitz=1.4142125184828966,
    zeros=(),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="Ma et al., Mega: Moving Average Equipped Gated Attention, ICLR 2023, arXiv:2209.10655",
)
