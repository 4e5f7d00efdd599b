"""The reference: a record's oracle and its derivatives in mpmath, agreed between two precisions, rounded once.

torch's own float64 functions are no reference; its GELU, for one, is zero below -8.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import torch
from torch import Tensor

from softgate.acts import Activation, GatedActivation
from softgate.numerics.series import Series, SeriesContext

# Its own context, so that nobody else's change of mpmath's global precision reaches it; arithmetic with what it
# returned keeps more digits than any float has.
_MP = mpmath.MPContext()
_MP.prec = 300
_CONTEXT = SeriesContext(_MP)
# So far out that every record has reached its limit to more digits than a float has: infinity stands for this.
_FAR_OUT = 4000
_BELOW_FLOATS = _MP.ldexp(1, -1300)
_FIRST_PRECISION = 120
_LAST_PRECISION = 1 << 16


def derivatives(record: Activation, x: float, order: int = 2, bits: int = 80, **params: float) -> tuple[Any, ...]:
    """f, f', ..., up to `order` at x, as mpmath numbers right to `bits` bits, or below 2^-1300, where no float is.

    x may be infinite: what comes out rounds to the limits. At a kink the side is the one that the
    oracle's own comparison takes. Parameters default to the record's.

    Raises ArithmeticError when no working precision makes the oracle agree with itself, ValueError for NaN.

    >>> from softgate.acts import get
    >>> [float(v) for v in derivatives(get("gelu"), -9.0)]
    [-1.0157295653584566e-18, -9.138937373906639e-18, -8.121021121618442e-17]
    """
    arguments = {**record.params, **params}

    def evaluate() -> list[Any]:
        seed = Series([_number(x), _MP.mpf(1), *[_MP.mpf(0)] * order][: order + 1])
        coefficients = _coefficients(record.oracle(_CONTEXT, seed, **arguments), order)
        return [a * math.factorial(i) for i, a in enumerate(coefficients)]

    return tuple(_settle(evaluate, bits, f"{record.name} at {x!r}"))


def gated_derivatives(record: GatedActivation, gate: float, up: float, bits: int = 80) -> dict[str, Any]:
    """value, gate, up, gate_gate, gate_up and up_up: f and its partial derivatives, as mpmath numbers.

    Second derivatives come from the Taylor series along gate, along up, and along both together.

    >>> from softgate.acts import get
    >>> {k: float(v) for k, v in gated_derivatives(get("bilinear"), 2.0, 3.0).items()}
    {'value': 6.0, 'gate': 3.0, 'up': 2.0, 'gate_gate': 0.0, 'gate_up': 1.0, 'up_up': 0.0}
    """

    def along(gate_step: int, up_step: int) -> list[Any]:
        g, u = _number(gate), _number(up)
        seeds = [Series([start, _MP.mpf(step), _MP.mpf(0)]) for start, step in ((g, gate_step), (u, up_step))]
        return _coefficients(record.oracle(_CONTEXT, *seeds), 2)

    def evaluate() -> list[Any]:
        by_gate, by_up, both = along(1, 0), along(0, 1), along(1, 1)
        mixed = both[2] - by_gate[2] - by_up[2]
        return [by_gate[0], by_gate[1], by_up[1], 2 * by_gate[2], mixed, 2 * by_up[2]]

    found = _settle(evaluate, bits, f"{record.name} at ({gate!r}, {up!r})")
    return dict(zip(("value", "gate", "up", "gate_gate", "gate_up", "up_up"), found, strict=True))


def reference(
    record: Activation, x: Tensor | Sequence[float], order: int = 0, dtype: torch.dtype = torch.float64, **params: float
) -> Tensor:
    """The `order`-th derivative of `record` at every x, each rounded once to `dtype`; NaN where x is NaN.

    Shape of x; any floating dtype in, `dtype` (float64, float32, bfloat16 or float16) out, subnormals included.
    The cost is some tens of microseconds a point.

    >>> from softgate.acts import get
    >>> reference(get("gelu"), [-6.0, float("inf")], dtype=torch.float32)
    tensor([-5.9195e-09,         inf])
    """
    points = x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64)
    rounded = [
        math.nan if math.isnan(p) else round_to(derivatives(record, p, order, 80, **params)[order], dtype)
        for p in points.double().flatten().tolist()
    ]
    return torch.tensor(rounded, dtype=torch.float64).to(dtype).reshape(points.shape)


def round_to(exact: Any, dtype: torch.dtype) -> float:
    """`exact`, an mpmath number, rounded to the nearest value of `dtype`, ties to even, as a Python float.

    Below the normal range the spacing is the smallest subnormal; above the largest number infinity comes out.

    >>> round_to(mpmath.mpf("1e-46"), torch.float32), round_to(mpmath.mpf(2) ** 128, torch.float32)
    (0.0, inf)
    """
    digits, lowest, highest = _format(dtype)
    if exact == 0 or not _MP.isfinite(exact):
        return float(exact)
    negative, mantissa, exponent, length = exact._mpf_
    unit = max(exponent + length - digits, lowest)
    if exponent + length < unit:
        magnitude = 0  # less than half a unit, and perhaps by more than an integer could be shifted
    elif exponent >= unit:
        magnitude, unit = int(mantissa), exponent
    else:
        whole, rest = divmod(int(mantissa), 1 << (unit - exponent))
        half = 1 << (unit - exponent - 1)
        magnitude = whole + (rest > half or (rest == half and whole % 2 == 1))
    if magnitude.bit_length() + unit > highest:
        return -math.inf if negative else math.inf
    return math.ldexp(-magnitude if negative else magnitude, unit) if magnitude else math.copysign(0.0, -negative)


def _format(dtype: torch.dtype) -> tuple[int, int, int]:
    """Bits of the significand, exponent of the smallest subnormal, and exponent above the largest number."""
    limits = torch.finfo(dtype)
    digits = 1 - round(math.log2(limits.eps))
    return digits, round(math.log2(limits.smallest_normal)) - digits + 1, math.frexp(limits.max)[1]


def _number(x: float) -> Any:
    if math.isnan(x):
        raise ValueError("the oracle has no value at NaN")
    if math.isinf(x):
        return _MP.ldexp(1 if x > 0 else -1, _FAR_OUT)
    return _MP.mpf(x)


def _coefficients(result: Any, order: int) -> list[Any]:
    """Coefficients of an oracle's answer, which is a bare number where the function is constant."""
    if isinstance(result, Series):
        return [_MP.mpf(a) for a in result.c]
    return [_MP.mpf(result), *[_MP.mpf(0)] * order]


def _settle(evaluate: Callable[[], list[Any]], bits: int, what: str) -> list[Any]:
    """Results at the first working precision that agrees with the one before, to `bits` bits."""
    previous: list[Any] | None = None
    precision = max(_FIRST_PRECISION, bits + 40)
    while precision <= _LAST_PRECISION:
        with _MP.workprec(precision):
            current = evaluate()
            agreed = previous is not None and all(map(_agree, previous, current, [bits] * len(current)))
        # Two zeros may agree because both lost the same digits; a true zero stays one with eight times as many.
        if agreed and 0 in current:
            with _MP.workprec(8 * precision):
                current = evaluate()
            agreed = all(map(_agree, previous or [], current, [bits] * len(current)))
        if agreed:
            return current
        previous = current
        precision = precision * 3 // 2
    raise ArithmeticError(f"the oracle does not settle: {what}")


def _agree(a: Any, b: Any, bits: int) -> bool:
    # A true zero between irrational terms never shows as zero; below every float it may pass for one.
    return bool(abs(a - b) <= _MP.ldexp(abs(b), -bits) or max(abs(a), abs(b)) < _BELOW_FLOATS)
