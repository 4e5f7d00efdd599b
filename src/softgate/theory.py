"""Gaussian moments of activations, and signal and gradient through depth in the mean-field picture.

Expectations over z ~ N(0, 1) are composite Gauss-Legendre sums in float64 of the record's own formulas, with panel ends
at every kink, so that each panel holds an analytic function.
"""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softgate import acts
from softgate.errors import BadInput, clean

# The Gaussian weight beyond 12 is 4e-33: nothing, even against z^4.
_REACH = 12.0
_POINTS = 20
# The panel ends +-2^k in the function's own argument start here; they resolve a function whatever the scale of z.
_FINEST = -12
# A collapsed (0) or overflowed (inf) second moment has no slope of its own; the slope there is the limit, taken here.
# Both lie beyond the root of every positive finite float64.
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-165, 1e155


@dataclass(frozen=True)
class Moments:
    """Moments of f(z), z ~ N(0, 1); what an initialisation needs to know of an activation. Dimensionless.

    `mean` E f, `second` E f^2, `variance` Var f, `slope_mean` E f', `slope_second` E f'^2;
    `gain` 1 / sqrt(E f^2) keeps the second moment of the signal, `backward_gain` 1 / sqrt(E f'^2) that of the gradient.
    """

    name: str
    params: Mapping[str, float]
    mean: float
    second: float
    variance: float
    slope_mean: float
    slope_second: float
    gain: float
    backward_gain: float

    def to_dict(self) -> dict[str, Any]:
        """The fields as builtins that JSON can hold; an infinite one is None, and why stands under ``reasons``."""
        reasons: dict[str, str] = {}
        numbers = {label: _finite(value, label, reasons) for label, value in _numbers(self).items()}
        return {"name": self.name, "params": dict(self.params), **numbers, "reasons": reasons}

    def __str__(self) -> str:
        rows = _rows(self)
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {shown}" for label, shown in rows)

    def _repr_html_(self) -> str:
        return _table(f"Moments of {self.name} under N(0, 1)", ("moment", "value"), _rows(self))


@dataclass(frozen=True)
class Propagation:
    """Second moment and gradient through `depth` equal layers without normalisation. Dimensionless.

    `q[l]` is the second moment of the pre-activation of layer l (`depth` + 1 of them, `q[0]` is `start`), `slope[l]`
    the factor by which layer l multiplies the mean squared gradient, `gradient` the product of these factors.
    Overflow is inf, collapse is 0.
    """

    name: str
    depth: int
    weight_var: float
    start: float
    q: tuple[float, ...] = field(repr=False)
    slope: tuple[float, ...] = field(repr=False)
    gradient: float

    def to_dict(self) -> dict[str, Any]:
        """The fields as builtins that JSON can hold; an infinite one is None, and why stands under ``reasons``."""
        reasons: dict[str, str] = {}
        return {
            "name": self.name,
            "depth": self.depth,
            "weight_var": self.weight_var,
            "start": self.start,
            "q": [_finite(value, f"q.{i}", reasons) for i, value in enumerate(self.q)],
            "slope": [_finite(value, f"slope.{i}", reasons) for i, value in enumerate(self.slope)],
            "gradient": _finite(self.gradient, "gradient", reasons),
            "reasons": reasons,
        }

    def _shown(self) -> list[tuple[str, ...]]:
        """One row a layer: its number, q, and the slope factor, which the last pre-activation does not have."""
        slopes = [f"{value:.6g}" for value in self.slope] + [""]
        return [(str(i), f"{q:.6g}", slope) for i, (q, slope) in enumerate(zip(self.q, slopes, strict=True))]

    def _headline(self) -> str:
        return f"{self.name}, depth {self.depth}, weight variance {self.weight_var:g} / fan_in, start {self.start:g}"

    def __str__(self) -> str:
        lines = [f"{i:>5}  {q:>12}  {slope:>12}".rstrip() for i, q, slope in (("layer", "q", "slope"), *self._shown())]
        return "\n".join([self._headline(), *lines, f"gradient factor, all layers: {self.gradient:.6g}"])

    def _repr_html_(self) -> str:
        caption = f"{self._headline()}; gradient factor {self.gradient:.6g}"
        return _table(caption, ("layer", "q", "slope"), self._shown())


def moments(name: str, **params: float) -> Moments:
    """E f, E f^2, Var f, E f', E f'^2 and both gains of the activation `name` for z ~ N(0, 1).

    `params` replace the record's defaults. For a gated name the moments are those of the unit f(g, u) = act(g) u (with
    the record's bounds and offset) for independent g, u ~ N(0, 1). f then has two slopes, and the sums over both are
    given: slope_mean = E df/dg + E df/du and slope_second = E (df/dg)^2 + E (df/du)^2, which is what the gradient with
    respect to the common input of both projections sees. A gated name takes no parameters.

    Returns floats, right to about 1e-15 of the scale of f. Raises UnknownActivation, and BadInput for a parameter that
    the record does not have.

    >>> import math
    >>> math.isclose(moments("gelu").mean, 1 / (2 * math.sqrt(math.pi)), rel_tol=1e-14)
    True
    >>> round(moments("swiglu").second, 6) == round(moments("silu").second, 6)
    True

    Source: gains after He et al. 2015, arXiv:1502.01852, with the activation's own E f^2 in place of ReLU's 1/2.
    """
    record = acts.get(name)
    chosen = parameters(record, params)
    unit = _unit(_factors(record, chosen), 1.0)
    return Moments(
        name=record.name,
        params=chosen,
        mean=unit.mean,
        second=unit.second,
        variance=unit.variance,
        slope_mean=unit.slope_mean,
        slope_second=unit.slope_second,
        gain=_inverse_root(unit.second),
        backward_gain=_inverse_root(unit.slope_second),
    )


def propagate(name: str, depth: int, weight_var: float, start: float = 1.0) -> Propagation:
    """Mean-field recursion through `depth` layers of weights N(0, weight_var / fan_in), no bias and no normalisation:

        q[0] = start,  q[l+1] = weight_var E f(sqrt(q[l]) z)^2,  slope[l] = weight_var E f'(sqrt(q[l]) z)^2.

    weight_var is 2 for He initialisation and ``moments(name).gain ** 2`` for the activation's own gain. For a gated
    name both halves have second moment q[l], are independent, and the slope sums over both. Overflow gives inf and
    collapse 0; the slope there is the limit. Raises UnknownActivation, and BadInput unless depth is a whole number >= 0
    and weight_var and start are finite and >= 0.

    >>> relu = propagate("relu", depth=50, weight_var=2.0)
    >>> round(relu.q[50], 9), round(relu.gradient, 9)
    (1.0, 1.0)
    >>> [f"{q:.3g}" for q in propagate("gelu", depth=50, weight_var=2.0).q[10::20]]
    ['0.0293', '3.12e-08', '2.97e-14']

    Source: Poole et al. 2016, arXiv:1606.05340; Schoenholz et al. 2017, arXiv:1611.01232.
    """
    record = acts.get(name)
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise BadInput(f"depth must be a whole number of layers, 0 or more; got {clean(depth)}")
    for label, value in (("weight_var", weight_var), ("start", start)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise BadInput(f"{label} must be a finite number, 0 or more; got {clean(value)}")
    factors = _factors(record, parameters(record, {}))
    q, slope = [float(start)], []
    for _ in range(depth):
        unit = _unit(factors, math.sqrt(q[-1]))
        q.append(weight_var * unit.second if weight_var else 0.0)
        slope.append(weight_var * unit.slope_second if weight_var else 0.0)
    return Propagation(
        name=record.name,
        depth=depth,
        weight_var=float(weight_var),
        start=float(start),
        q=tuple(q),
        slope=tuple(slope),
        gradient=math.prod(slope),
    )


def parameters(record: acts.Activation | acts.GatedActivation, params: Mapping[str, float]) -> dict[str, float]:
    """The record's parameters with `params` in their places; a gated record's are part of what it is and stay.

    Raises BadInput for a parameter that cannot be set or a value that is not a finite number.

    >>> parameters(acts.get("elu"), {"alpha": 2})
    {'alpha': 2.0}
    """
    check_params(record, params)
    for label, value in params.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise BadInput(f"{record.name}: {label} must be a finite number; got {clean(value)}")
    return {**record.params, **{label: float(value) for label, value in params.items()}}


def check_params(record: acts.Activation | acts.GatedActivation, params: Iterable[str]) -> None:
    """Raise BadInput for the first name in `params` that is not a parameter of the record that can be set.

    >>> check_params(acts.get("elu"), ["alpha"])
    """
    known = () if record.gated else tuple(record.params)
    for label in params:
        if label not in known:
            has = f"its parameters are {', '.join(known)}" if known else "it takes none"
            raise BadInput(f"{record.name} has no parameter '{clean(label)}'; {has}")


# --- quadrature -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Factor:
    """A function of one Gaussian variable: its value, its slope, and where they are not analytic."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    kinks: tuple[float, ...]


@dataclass(frozen=True)
class _Unit:
    mean: float
    second: float
    variance: float
    slope_mean: float
    slope_second: float


def _factors(record: acts.Activation | acts.GatedActivation, params: Mapping[str, float]) -> tuple[_Factor, ...]:
    """f itself, or the two factors whose product a gated record is."""
    if isinstance(record, acts.Activation):
        return (_plain_factor(record, params, None),)
    return (_plain_factor(record.gate, record.gate_params, record.gate_max), _up_factor(record))


def _plain_factor(record: acts.Activation, params: Mapping[str, float], top: float | None) -> _Factor:
    bound = math.inf if top is None else top
    return _Factor(
        value=lambda x: record.value(x.clamp(max=bound), **params),
        slope=lambda x: record.slope(x, **params) * (x <= bound),
        kinks=(*record.kinks, *(() if top is None else (top,))),
    )


def _up_factor(record: acts.GatedActivation) -> _Factor:
    limit = math.inf if record.up_limit is None else record.up_limit
    return _Factor(
        value=lambda x: x.clamp(-limit, limit) + record.offset,
        slope=lambda x: (x.abs() <= limit).double(),
        kinks=() if record.up_limit is None else (-limit, limit),
    )


def _unit(factors: tuple[_Factor, ...], scale: float) -> _Unit:
    """Moments of the product of the factors, each at an independent scale * z; slopes summed over the variables."""
    first, *rest = (_expect(factor, scale) for factor in factors)
    for other in rest:
        first = _Unit(
            mean=first.mean * other.mean,
            second=first.second * other.second,
            variance=first.variance * other.second + first.mean**2 * other.variance,
            slope_mean=first.slope_mean * other.mean + first.mean * other.slope_mean,
            slope_second=first.slope_second * other.second + first.second * other.slope_second,
        )
    return first


def _expect(factor: _Factor, scale: float) -> _Unit:
    limited = min(max(scale, _SMALLEST_SCALE), _LARGEST_SCALE)
    z, weight = _nodes(factor.kinks, limited)  # [n], [n]
    value = factor.value(z * scale)  # [n]
    slope = factor.slope(z * limited)  # [n]
    mean = _sum(weight, value)
    return _Unit(
        mean=mean,
        second=_sum(weight, value.square()),
        variance=_sum(weight, (value - mean).square()),
        slope_mean=_sum(weight, slope),
        slope_second=_sum(weight, slope.square()),
    )


def _sum(weight: Tensor, value: Tensor) -> float:
    return float((weight * value).sum())


def _nodes(kinks: tuple[float, ...], scale: float) -> tuple[Tensor, Tensor]:
    """Points z and weights, both [n] float64, with sum(weight * g(z)) = E g(z) for g analytic between kinks / scale."""
    # Ends 2^k in x = scale * z: wherever the function bends, panels are no wider than their distance from its centre.
    powers = 2.0 ** np.arange(_FINEST, math.ceil(math.log2(_REACH * scale)), dtype=np.float64)
    x = np.concatenate([-powers, powers, np.asarray(kinks, dtype=np.float64)]) / scale
    whole = np.arange(-_REACH, _REACH + 1)
    ends = np.unique(np.concatenate([whole, x[np.abs(x) < _REACH]]))
    middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    node, share = _legendre()
    z = (middle[:, None] + half[:, None] * node).ravel()
    weight = (half[:, None] * share).ravel() * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return torch.from_numpy(z), torch.from_numpy(weight)


@functools.cache
def _legendre() -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    node, share = np.polynomial.legendre.leggauss(_POINTS)
    return node, share


# --- small helpers ----------------------------------------------------------------------------------------------------


def _inverse_root(second: float) -> float:
    return 1.0 / math.sqrt(second) if second > 0.0 else math.inf


def _finite(value: float, where: str, reasons: dict[str, str]) -> float | None:
    if math.isfinite(value):
        return value
    reasons[where] = "+infinity"
    return None


def _numbers(result: Moments) -> dict[str, float]:
    labels = ("mean", "second", "variance", "slope_mean", "slope_second", "gain", "backward_gain")
    return {label: getattr(result, label) for label in labels}


def _rows(result: Moments) -> list[tuple[str, ...]]:
    return [("name", result.name), *((k.replace("_", " "), f"{v:.15g}") for k, v in _numbers(result).items())]


def _table(caption: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    heads = "".join(f'<th scope="col">{html.escape(label)}</th>' for label in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )
