"""What an activation is: one frozen record that checks itself when it is made.

Kernels, modules, documentation and tests are derived from these records; nothing about a function is said twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from softgate.acts import describe
from softgate.acts.parts import Formula
from softgate.errors import RecordError

_INF = math.inf
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# A record's own numbers are rounded to float64 and its formula is right to a few units: this is far above both.
_CLOSE = 1e-12


def _demand(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise RecordError(f"record {name!r}: {what}")


def _same(a: float, b: float) -> bool:
    return a == b or (math.isfinite(a) and math.isfinite(b) and abs(a - b) <= _CLOSE * max(1.0, abs(a), abs(b)))


def _check_names(name: str, texts: Mapping[str, str], aliases: tuple[str, ...]) -> None:
    for label in (name, *aliases):
        _demand(_NAME.fullmatch(label) is not None, name, f"{label!r} is not a lower-case name")
    _demand(len({name, *aliases}) == 1 + len(aliases), name, "a name is given twice")
    for what, text in texts.items():
        _demand(bool(text.strip()), name, f"{what} is empty")


class _Shared:
    """A record never changes: a deep copy of what holds it keeps it, and pickle carries its read-only mappings."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, MappingProxyType(value) if isinstance(value, dict) else value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Activation(_Shared):
    """A scalar function f with everything that is known about it, at the default parameters.

    `value`, `slope` and `curvature` are f, f' and f'' as torch formulas ``(x, **params) -> Tensor`` of the shape and
    dtype of x (16-bit input is computed in float32 and rounded once). They return the limits at infinity, and NaN for
    NaN; at kinks and clamp edges `slope` is what torch's autograd gives. Results are within a few units in the last
    place of the change that one unit in x or in a parameter makes, down to about 1000 times the smallest normal number.
    `oracle` is ``(mp, x, **params)``, the same function in the arithmetic of the context `mp`, written independently.

    `limits` are f(-inf), f(+inf) and `slope_limits` the same of f'; `kinks` are the points where f or a derivative
    jumps, `smoothness` the k of C^k; `lipschitz` is sup |f'|, None when there is none; `zeros` are disjoint closed
    intervals (lo, hi), ascending, one of equal ends for a single point; `minimum` and `argmin` are None when the
    infimum is not attained. `self_gated` means f(x) = x g(x) with 0 <= g <= 1, g open at +inf and f(-inf) = 0.

    Raises RecordError when its parts contradict each other.

    >>> from softgate.acts import get
    >>> get("gelu").minimum, get("gelu").limits
    (-0.16997120747990366, (0.0, inf))
    """

    name: str
    title: str
    formula: str
    latex: str
    value: Formula
    slope: Formula
    curvature: Formula
    oracle: Callable[..., Any]
    params: Mapping[str, float] = field(default_factory=dict)
    learnable: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    domain: tuple[float, float] = (-_INF, _INF)
    kinks: tuple[float, ...] = ()
    check_points: tuple[float, ...]
    limits: tuple[float, float]
    slope_limits: tuple[float, float]
    monotone: bool
    smoothness: float
    lipschitz: float | None
    zeros: tuple[tuple[float, float], ...]
    minimum: float | None
    argmin: float | None
    self_gated: bool
    reference: str
    gated: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        texts = {"title": self.title, "formula": self.formula, "latex": self.latex, "reference": self.reference}
        _check_names(self.name, texts, self.aliases)
        self._check_statements()
        self._check_functions()

    def _check_statements(self) -> None:
        """What can be seen wrong without evaluating anything."""

        def demand(holds: bool, what: str) -> None:
            _demand(holds, self.name, what)

        demand(all(math.isfinite(v) for v in self.params.values()), "a parameter is not finite")
        demand(set(self.learnable) <= set(self.params), "a learnable parameter is not among the parameters")
        demand(self.domain[0] < self.domain[1], "the domain is empty")
        demand(self.kinks == tuple(sorted(set(self.kinks))), "kinks are not ascending and distinct")
        demand(set(self.kinks) <= set(self.check_points), "a kink is not a check point")
        demand(all(math.isfinite(p) for p in (*self.kinks, *self.check_points)), "a check point is not finite")
        demand(bool(self.kinks) == math.isfinite(self.smoothness), "smoothness and kinks contradict each other")
        demand(self.smoothness in (0, 1, _INF), "smoothness is not 0, 1 or infinity")
        ends = [end for zero in self.zeros for end in zero]
        demand(ends == sorted(ends) and not any(map(math.isnan, ends)), "zeros are not ascending closed intervals")
        demand(all(a[1] < b[0] for a, b in zip(self.zeros, self.zeros[1:], strict=False)), "zeros touch each other")
        demand((self.minimum is None) == (self.argmin is None), "minimum and argmin must both be given, or neither")
        demand(self.minimum is None or self.minimum <= min(self.limits), "the minimum is above a limit")
        if self.monotone:
            demand(self.limits[0] <= self.limits[1], "a monotone function falls from limit to limit")
            demand(min(self.slope_limits) >= 0, "a monotone function has a negative slope limit")
        steepest = max(abs(s) for s in self.slope_limits)
        if self.lipschitz is None:
            demand(steepest == _INF, "the slope is bounded at infinity, but no Lipschitz constant is given")
        else:
            demand(0 < self.lipschitz < _INF, "the Lipschitz constant is not positive and finite")
            demand(steepest <= self.lipschitz, "a slope limit exceeds the Lipschitz constant")
        if self.self_gated:
            demand(self.limits == (0.0, _INF) and self.slope_limits == (0.0, 1.0), "a self-gated function has to shut")

    def _check_functions(self) -> None:
        """What a few evaluations can refute; the contract suite checks the rest against the oracle."""

        def demand(holds: bool, what: str) -> None:
            _demand(holds, self.name, what)

        def at(function: Formula, *points: float) -> list[float]:
            x = torch.tensor(points, dtype=torch.float64)
            y = function(x)
            demand(y.dtype == x.dtype and y.shape == x.shape, "a formula changes the shape or the dtype")
            explicit = function(x, **self.params)
            demand(torch.equal(y.nan_to_num(), explicit.nan_to_num()), "params are not the defaults of the formulas")
            return [float(v) for v in y]

        for points, stated, function, what in (
            ((-_INF, _INF), self.limits, self.value, "limits"),
            ((-_INF, _INF), self.slope_limits, self.slope, "slope limits"),
        ):
            got = at(function, *points)
            demand(all(map(_same, got, stated)), f"stated {what} {stated} are not those of the formula, {tuple(got)}")
        demand(math.isnan(at(self.value, math.nan)[0]), "NaN is lost")
        ends = tuple(e for zero in self.zeros for e in zero if math.isfinite(e))
        demand(all(abs(v) <= _CLOSE for v in at(self.value, *ends)), "the function is not zero on its zero set")
        if self.argmin is not None and self.minimum is not None:
            demand(_same(at(self.value, self.argmin)[0], self.minimum), "the minimum is not the value at argmin")
            demand(abs(at(self.slope, self.argmin)[0]) <= 1e-9, "the slope at argmin is not zero")
        if self.lipschitz is not None:
            slopes = at(self.slope, *self.check_points)
            demand(max(map(abs, slopes)) <= self.lipschitz * (1 + _CLOSE), "a slope exceeds the Lipschitz constant")
        at(self.curvature, *self.check_points)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the functions, as builtins that JSON can hold; infinite numbers are None with a reason."""
        return describe.to_dict(self)

    def __str__(self) -> str:
        return describe.text(self)

    def _repr_html_(self) -> str:
        return describe.html_table(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class GatedActivation(_Shared):
    """A product ``act(gate) * up`` of two halves, with everything that sets one such function apart from another.

    ``value(gate, up) = gate(min(g, gate_max)) * (clamp(u, -up_limit, up_limit) + offset)``, where `gate` is a plain
    record and a bound of None is absent. `order` says how the two halves lie in one packed tensor: ``"gate_first"`` or
    ``"interleaved"``. `slopes` and `curvatures` are the first and second partial derivatives; at clamp edges they are
    what torch's autograd gives. Shapes of both arguments must agree, results have that shape.

    Raises RecordError when its parts contradict each other.

    >>> from softgate.acts import get
    >>> get("swiglu").value(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.4621])
    """

    name: str
    title: str
    formula: str
    latex: str
    gate: Activation
    gate_params: Mapping[str, float] = field(default_factory=dict)
    gate_max: float | None = None
    up_limit: float | None = None
    offset: float = 0.0
    order: str = "gate_first"
    aliases: tuple[str, ...] = ()
    reference: str
    gated: ClassVar[bool] = True
    # A product of two arguments has no single minimum, limit or Lipschitz constant.
    minimum: ClassVar[None] = None
    argmin: ClassVar[None] = None
    lipschitz: ClassVar[None] = None
    limits: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "gate_params", MappingProxyType({**self.gate.params, **self.gate_params}))
        texts = {"title": self.title, "formula": self.formula, "latex": self.latex, "reference": self.reference}
        _check_names(self.name, texts, self.aliases)
        _demand(set(self.gate_params) == set(self.gate.params), self.name, "a gate parameter is not one of the gate's")
        _demand(self.gate_max is None or self.gate_max > 0, self.name, "gate_max is not positive")
        _demand(self.up_limit is None or self.up_limit > 0, self.name, "up_limit is not positive")
        _demand(math.isfinite(self.offset), self.name, "offset is not finite")
        _demand(self.order in ("gate_first", "interleaved"), self.name, f"order {self.order!r} is unknown")

    @property
    def params(self) -> Mapping[str, float]:
        """The gate's parameters, and the bounds and the offset where the record has them."""
        extra = {"gate_max": self.gate_max, "up_limit": self.up_limit, "offset": self.offset or None}
        return MappingProxyType({**self.gate_params, **{k: v for k, v in extra.items() if v is not None}})

    @property
    def kinks(self) -> tuple[float, ...]:
        """Kinks along the gate: the gate's own below its bound, and the bound."""
        if self.gate_max is None:
            return self.gate.kinks
        return (*(k for k in self.gate.kinks if k < self.gate_max), self.gate_max)

    def _gate(self, gate: Tensor) -> Tensor:
        return gate if self.gate_max is None else gate.clamp(max=self.gate_max)

    def _up(self, up: Tensor) -> Tensor:
        bounded = up if self.up_limit is None else up.clamp(-self.up_limit, self.up_limit)
        return bounded + self.offset if self.offset else bounded

    def _gate_inside(self, gate: Tensor, derivative: Tensor) -> Tensor:
        return derivative if self.gate_max is None else derivative.masked_fill(gate > self.gate_max, 0.0)

    def _up_inside(self, up: Tensor, derivative: Tensor) -> Tensor:
        if self.up_limit is None:
            return derivative
        # NaN is neither inside nor outside the bounds.
        return derivative.masked_fill(up.abs() > self.up_limit, 0.0).masked_fill(up.isnan(), math.nan)

    def value(self, gate: Tensor, up: Tensor) -> Tensor:
        """act(gate) * up; two tensors of one shape and dtype, and so is the result.

        >>> from softgate.acts import get
        >>> get("reglu").value(torch.tensor([-1.0, 2.0]), torch.tensor([3.0, 3.0]))
        tensor([0., 6.])
        """
        _check_shapes(gate, up)
        return self.gate.value(self._gate(gate), **self.gate_params) * self._up(up)

    def slopes(self, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        """(d/dgate, d/dup), each of the shape of the arguments.

        >>> from softgate.acts import get
        >>> get("bilinear").slopes(torch.tensor([2.0]), torch.tensor([5.0]))
        (tensor([5.]), tensor([2.]))
        """
        _check_shapes(gate, up)
        g = self._gate(gate)
        by_gate = self._gate_inside(gate, self.gate.slope(g, **self.gate_params)) * self._up(up)
        return by_gate, self._up_inside(up, self.gate.value(g, **self.gate_params))

    def curvatures(self, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(d2/dgate2, d2/dgate dup, d2/dup2); the last is zero, for the function is piecewise linear in up.

        >>> from softgate.acts import get
        >>> get("bilinear").curvatures(torch.tensor([2.0]), torch.tensor([5.0]))
        (tensor([0.]), tensor([1.]), tensor([0.]))
        """
        _check_shapes(gate, up)
        g = self._gate(gate)
        twice = self._gate_inside(gate, self.gate.curvature(g, **self.gate_params)) * self._up(up)
        mixed = self._up_inside(up, self._gate_inside(gate, self.gate.slope(g, **self.gate_params)))
        return twice, mixed, torch.zeros_like(twice)

    def oracle(self, mp: Any, gate: Any, up: Any) -> Any:
        """The same function in the arithmetic of the context `mp`, from the gate's oracle."""
        g = gate if self.gate_max is None or gate <= self.gate_max else mp.mpf(self.gate_max)
        u = up
        if self.up_limit is not None and abs(up) > self.up_limit:
            u = mp.mpf(self.up_limit if up > 0 else -self.up_limit)
        return self.gate.oracle(mp, g, **self.gate_params) * (u + mp.mpf(self.offset))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the functions, as builtins that JSON can hold; the gate is given by its name."""
        return describe.to_dict(self)

    def __str__(self) -> str:
        return describe.text(self)

    def _repr_html_(self) -> str:
        return describe.html_table(self)


def _check_shapes(gate: Tensor, up: Tensor) -> None:
    if gate.shape != up.shape:
        raise ValueError(f"gate and up have unequal shapes, {tuple(gate.shape)} and {tuple(up.shape)}")
