"""Exponential linear units: straight or parabolic above zero, an exponential below."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from softgate.acts.parts import step, widened
from softgate.acts.spec import Activation

_INF = math.inf
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _elu_value(x: Tensor, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@widened
def _elu_slope(x: Tensor, alpha: float = 1.0) -> Tensor:
    on = step(x)
    return on + torch.exp(x.clamp(max=0.0)) * (1.0 - on) * alpha


@widened
def _elu_curvature(x: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.exp(x.clamp(max=0.0)) * (1.0 - step(x)) * alpha


def _elu_oracle(mp: Any, x: Any, alpha: float = 1.0) -> Any:
    return x if x > 0 else mp.mpf(alpha) * mp.expm1(x)


def _selu_value(x: Tensor) -> Tensor:
    return F.selu(x)


@widened
def _selu_slope(x: Tensor) -> Tensor:
    return _elu_slope(x, alpha=SELU_ALPHA) * SELU_SCALE


@widened
def _selu_curvature(x: Tensor) -> Tensor:
    return _elu_curvature(x, alpha=SELU_ALPHA) * SELU_SCALE


def _selu_oracle(mp: Any, x: Any) -> Any:
    return mp.mpf(SELU_SCALE) * (x if x > 0 else mp.mpf(SELU_ALPHA) * mp.expm1(x))


def _celu_value(x: Tensor, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@widened
def _celu_slope(x: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.exp(x.clamp(max=0.0) / alpha)


@widened
def _celu_curvature(x: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.exp(x.clamp(max=0.0) / alpha) * (1.0 - step(x)) / alpha


def _celu_oracle(mp: Any, x: Any, alpha: float = 1.0) -> Any:
    return x if x > 0 else mp.mpf(alpha) * mp.expm1(x / mp.mpf(alpha))


@widened
def _xielu_value(x: Tensor, alpha_p: float | Tensor = 0.8, alpha_n: float | Tensor = 0.8, beta: float = 0.5) -> Tensor:
    # At 0 autograd must take one of the two branches: relu's gradient there is 0, that of the clamp 1.
    p, n = torch.relu(x), x.clamp(max=0.0)
    return (p * alpha_p + beta) * p + torch.expm1(n) * alpha_n + n * (beta - alpha_n)


@widened
def _xielu_slope(x: Tensor, alpha_p: float | Tensor = 0.8, alpha_n: float | Tensor = 0.8, beta: float = 0.5) -> Tensor:
    return x.clamp(min=0.0) * (alpha_p * 2.0) + torch.expm1(x.clamp(max=0.0)) * alpha_n + beta


@widened
def _xielu_curvature(
    x: Tensor, alpha_p: float | Tensor = 0.8, alpha_n: float | Tensor = 0.8, beta: float = 0.5
) -> Tensor:
    on = step(x)
    return on * (alpha_p * 2.0) + torch.exp(x.clamp(max=0.0)) * (1.0 - on) * alpha_n


def _xielu_oracle(mp: Any, x: Any, alpha_p: float = 0.8, alpha_n: float = 0.8, beta: float = 0.5) -> Any:
    linear = mp.mpf(beta) * x
    return linear + (mp.mpf(alpha_p) * x * x if x > 0 else mp.mpf(alpha_n) * (mp.expm1(x) - x))


ELU = Activation(
    name="elu",
    title="Exponential linear unit",
    formula="x if x > 0 else alpha * (exp(x) - 1)",
    latex=r"\begin{cases}x & x>0\\ \alpha(e^x-1) & x\le 0\end{cases}",
    value=_elu_value,
    slope=_elu_slope,
    curvature=_elu_curvature,
    oracle=_elu_oracle,
    params={"alpha": 1.0},
    kinks=(0.0,),
    check_points=(-40.0, -1.0, 0.0, 1.0),
    limits=(-1.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=True,
    smoothness=1,
    lipschitz=1.0,
    zeros=((0.0, 0.0),),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="Clevert et al., Fast and Accurate Deep Network Learning by ELUs, ICLR 2016, arXiv:1511.07289",
)

SELU = Activation(
    name="selu",
    title="Scaled exponential linear unit",
    formula="1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (exp(x) - 1))",
    latex=r"\lambda\begin{cases}x & x>0\\ \alpha(e^x-1) & x\le 0\end{cases}",
    value=_selu_value,
    slope=_selu_slope,
    curvature=_selu_curvature,
    oracle=_selu_oracle,
    kinks=(0.0,),
    check_points=(-40.0, -1.0, 0.0, 1.0),
    limits=(-SELU_SCALE * SELU_ALPHA, _INF),
    slope_limits=(0.0, SELU_SCALE),
    monotone=True,
    smoothness=0,
    lipschitz=SELU_SCALE * SELU_ALPHA,
    zeros=((0.0, 0.0),),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="Klambauer et al., Self-Normalizing Neural Networks, NeurIPS 2017, arXiv:1706.02515",
)

CELU = Activation(
    name="celu",
    title="Continuously differentiable exponential linear unit",
    formula="x if x > 0 else alpha * (exp(x / alpha) - 1)",
    latex=r"\begin{cases}x & x>0\\ \alpha(e^{x/\alpha}-1) & x\le 0\end{cases}",
    value=_celu_value,
    slope=_celu_slope,
    curvature=_celu_curvature,
    oracle=_celu_oracle,
    params={"alpha": 1.0},
    kinks=(0.0,),
    check_points=(-40.0, -1.0, 0.0, 1.0),
    limits=(-1.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=True,
    smoothness=1,
    lipschitz=1.0,
    zeros=((0.0, 0.0),),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="Barron, Continuously Differentiable Exponential Linear Units, 2017, arXiv:1704.07483",
)

XIELU = Activation(
    name="xielu",
    title="Expanded integral of the exponential linear unit",
    formula="alpha_p * x^2 + beta * x if x > 0 else alpha_n * (exp(x) - 1 - x) + beta * x",
    latex=r"\begin{cases}\alpha_p x^2+\beta x & x>0\\ \alpha_n(e^x-1-x)+\beta x & x\le 0\end{cases}",
    value=_xielu_value,
    slope=_xielu_slope,
    curvature=_xielu_curvature,
    oracle=_xielu_oracle,
    params={"alpha_p": 0.8, "alpha_n": 0.8, "beta": 0.5},
    learnable=("alpha_p", "alpha_n"),
    kinks=(0.0,),
    check_points=(-40.0, -2.4324842769314479, -1.0, -0.98082925301172615, 0.0, 1.0),
    limits=(_INF, _INF),
    slope_limits=(0.5 - 0.8, _INF),
    monotone=False,
    smoothness=1,
    lipschitz=None,
    zeros=((-2.4324842769314479, -2.4324842769314479), (0.0, 0.0)),
    minimum=-0.20575122409648212,
    argmin=-0.98082925301172615,
    self_gated=False,
    reference="Huang and Schlag, Deriving Activation Functions Using Integration, 2024, arXiv:2411.13010",
)
