"""Functions made of straight and parabolic pieces: rectifiers, the hard ones, and the identity."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from softgate.acts.parts import flat, step, widened
from softgate.acts.spec import Activation

_INF = math.inf


# --- rectifiers -------------------------------------------------------------------------------------------------------


def _relu_oracle(mp: Any, x: Any) -> Any:
    return x if x > 0 else mp.mpf(0)


def _relu2_value(x: Tensor) -> Tensor:
    return F.relu(x).square()


def _relu2_slope(x: Tensor) -> Tensor:
    return F.relu(x) * 2.0


def _relu2_curvature(x: Tensor) -> Tensor:
    return step(x) * 2.0


def _relu2_oracle(mp: Any, x: Any) -> Any:
    return x * x if x > 0 else mp.mpf(0)


def _relu6_slope(x: Tensor) -> Tensor:
    # One at the edges would be clamp's answer; torch's relu6 gives zero at both.
    return step(x) * step(6.0 - x)


def _relu6_oracle(mp: Any, x: Any) -> Any:
    return mp.mpf(0) if x <= 0 else x if x <= 6 else mp.mpf(6)


def _leaky_value(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return F.leaky_relu(x, negative_slope)


def _leaky_slope(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    on = step(x)
    return on + (1.0 - on) * negative_slope


def _leaky_curvature(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return flat(x)


def _leaky_oracle(mp: Any, x: Any, negative_slope: float = 0.01) -> Any:
    return x if x > 0 else mp.mpf(negative_slope) * x


def _prelu_value(x: Tensor, weight: float | Tensor = 0.25) -> Tensor:
    # Not torch.where, which is many times slower on random signs; at zero the gradient is the weight, as torch has it.
    return F.relu(x) + x.clamp(max=0.0) * weight


def _prelu_slope(x: Tensor, weight: float | Tensor = 0.25) -> Tensor:
    on = step(x)
    return on + (1.0 - on) * weight


def _prelu_curvature(x: Tensor, weight: float | Tensor = 0.25) -> Tensor:
    return flat(x)


def _prelu_oracle(mp: Any, x: Any, weight: float = 0.25) -> Any:
    return x if x > 0 else mp.mpf(weight) * x


RELU = Activation(
    name="relu",
    title="Rectified linear unit",
    formula="max(x, 0)",
    latex=r"\max(x, 0)",
    value=F.relu,
    slope=step,
    curvature=flat,
    oracle=_relu_oracle,
    aliases=("rectifier",),
    kinks=(0.0,),
    check_points=(-1.0, 0.0, 1.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=True,
    smoothness=0,
    lipschitz=1.0,
    zeros=((-_INF, 0.0),),
    minimum=0.0,
    argmin=0.0,
    self_gated=True,
    reference="Nair and Hinton, Rectified Linear Units Improve Restricted Boltzmann Machines, ICML 2010",
)

RELU2 = Activation(
    name="relu2",
    title="Squared ReLU",
    formula="max(x, 0)^2",
    latex=r"\max(x, 0)^2",
    value=_relu2_value,
    slope=_relu2_slope,
    curvature=_relu2_curvature,
    oracle=_relu2_oracle,
    aliases=("squared_relu", "relu_squared", "sqrelu"),
    kinks=(0.0,),
    check_points=(-1.0, 0.0, 1.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, _INF),
    monotone=True,
    smoothness=1,
    lipschitz=None,
    zeros=((-_INF, 0.0),),
    minimum=0.0,
    argmin=0.0,
    self_gated=False,
    reference="So et al., Primer: Searching for Efficient Transformers for Language Modeling, 2021, arXiv:2109.08668",
)

RELU6 = Activation(
    name="relu6",
    title="ReLU clipped at 6",
    formula="min(max(x, 0), 6)",
    latex=r"\min(\max(x, 0), 6)",
    value=F.relu6,
    slope=_relu6_slope,
    curvature=flat,
    oracle=_relu6_oracle,
    kinks=(0.0, 6.0),
    check_points=(-1.0, 0.0, 3.0, 6.0, 7.0),
    limits=(0.0, 6.0),
    slope_limits=(0.0, 0.0),
    monotone=True,
    smoothness=0,
    lipschitz=1.0,
    zeros=((-_INF, 0.0),),
    minimum=0.0,
    argmin=0.0,
    self_gated=False,
    reference="Howard et al., MobileNets, 2017, arXiv:1704.04861",
)

LEAKY_RELU = Activation(
    name="leaky_relu",
    title="Leaky ReLU",
    formula="x if x > 0 else negative_slope * x",
    latex=r"\begin{cases}x & x>0\\ a x & x\le 0\end{cases}",
    value=_leaky_value,
    slope=_leaky_slope,
    curvature=_leaky_curvature,
    oracle=_leaky_oracle,
    params={"negative_slope": 0.01},
    aliases=("leakyrelu",),
    kinks=(0.0,),
    check_points=(-1.0, 0.0, 1.0),
    limits=(-_INF, _INF),
    slope_limits=(0.01, 1.0),
    monotone=True,
    smoothness=0,
    lipschitz=1.0,
    zeros=((0.0, 0.0),),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="Maas et al., Rectifier Nonlinearities Improve Neural Network Acoustic Models, ICML 2013",
)

PRELU = Activation(
    name="prelu",
    title="Parametric ReLU",
    formula="x if x > 0 else weight * x",
    latex=r"\begin{cases}x & x>0\\ w x & x\le 0\end{cases}",
    value=_prelu_value,
    slope=_prelu_slope,
    curvature=_prelu_curvature,
    oracle=_prelu_oracle,
    params={"weight": 0.25},
    learnable=("weight",),
    kinks=(0.0,),
    check_points=(-1.0, 0.0, 1.0),
    limits=(-_INF, _INF),
    slope_limits=(0.25, 1.0),
    monotone=True,
    smoothness=0,
    lipschitz=1.0,
    zeros=((0.0, 0.0),),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="He et al., Delving Deep into Rectifiers, ICCV 2015, arXiv:1502.01852",
)


# --- hard functions ---------------------------------------------------------------------------------------------------


@widened
def _hardswish_value(x: Tensor) -> Tensor:
    # Clamped from below, or -inf times zero would be NaN; divided before the product, or large x would overflow.
    y = x.clamp(min=-3.0)
    return y * ((y + 3.0).clamp(max=6.0) / 6.0)


@widened
def _hardswish_slope(x: Tensor) -> Tensor:
    # 0 at -3 and 1 at 3, as torch gives.
    inside = step(3.0 - x) * step(x + 3.0)
    return inside * (x.clamp(-3.0, 3.0) * 2.0 + 3.0) / 6.0 + (1.0 - step(3.0 - x))


@widened
def _hardswish_curvature(x: Tensor) -> Tensor:
    return step(3.0 - x) * step(x + 3.0) / 3.0


def _hardswish_oracle(mp: Any, x: Any) -> Any:
    if x <= -3:
        return mp.mpf(0)
    return x * (x + 3) / 6 if x < 3 else x


@widened
def _hardsigmoid_value(x: Tensor) -> Tensor:
    return (x + 3.0).clamp(0.0, 6.0) / 6.0


@widened
def _hardsigmoid_slope(x: Tensor) -> Tensor:
    return step(3.0 - x) * step(x + 3.0) / 6.0


def _hardsigmoid_oracle(mp: Any, x: Any) -> Any:
    if x <= -3:
        return mp.mpf(0)
    return (x + 3) / 6 if x < 3 else mp.mpf(1)


HARDSWISH = Activation(
    name="hardswish",
    title="Hard swish",
    formula="x * min(max(x + 3, 0), 6) / 6",
    latex=r"x\,\min(\max(x+3, 0), 6)/6",
    value=_hardswish_value,
    slope=_hardswish_slope,
    curvature=_hardswish_curvature,
    oracle=_hardswish_oracle,
    aliases=("hard_swish", "hard_silu"),
    kinks=(-3.0, 3.0),
    check_points=(-4.0, -3.0, -1.5, 0.0, 3.0, 4.0),
    limits=(0.0, _INF),
    slope_limits=(0.0, 1.0),
    monotone=False,
    smoothness=0,
    lipschitz=1.5,
    zeros=((-_INF, -3.0), (0.0, 0.0)),
    minimum=-0.375,
    argmin=-1.5,
    self_gated=True,
    reference="Howard et al., Searching for MobileNetV3, ICCV 2019, arXiv:1905.02244",
)

HARDSIGMOID = Activation(
    name="hardsigmoid",
    title="Hard sigmoid",
    formula="min(max(x + 3, 0), 6) / 6",
    latex=r"\min(\max(x+3, 0), 6)/6",
    value=_hardsigmoid_value,
    slope=_hardsigmoid_slope,
    curvature=flat,
    oracle=_hardsigmoid_oracle,
    aliases=("hard_sigmoid",),
    kinks=(-3.0, 3.0),
    check_points=(-4.0, -3.0, 0.0, 3.0, 4.0),
    limits=(0.0, 1.0),
    slope_limits=(0.0, 0.0),
    monotone=True,
    smoothness=0,
    lipschitz=1.0 / 6.0,
    zeros=((-_INF, -3.0),),
    minimum=0.0,
    argmin=-3.0,
    self_gated=False,
    reference="Howard et al., Searching for MobileNetV3, ICCV 2019, arXiv:1905.02244",
)


# --- identity ---------------------------------------------------------------------------------------------------------


def _identity_value(x: Tensor) -> Tensor:
    return x


def _identity_oracle(mp: Any, x: Any) -> Any:
    return x


IDENTITY = Activation(
    name="identity",
    title="Identity",
    formula="x",
    latex=r"x",
    value=_identity_value,
    slope=torch.ones_like,
    curvature=torch.zeros_like,
    oracle=_identity_oracle,
    aliases=("linear",),
    check_points=(-1.0, 0.0, 1.0),
    limits=(-_INF, _INF),
    slope_limits=(1.0, 1.0),
    monotone=True,
    smoothness=_INF,
    lipschitz=1.0,
    zeros=((0.0, 0.0),),
    minimum=None,
    argmin=None,
    self_gated=False,
    reference="the function that leaves its argument as it is",
)
