"""Truncated Taylor series over mpmath: what turns an oracle into its derivatives, without steps and without cancelling.

An oracle is called with a `SeriesContext` instead of mpmath and a `Series` instead of a number; it then returns its
own Taylor coefficients at that point. Branches compare the point, so each piece is differentiated on its own side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

# An mpmath number, a Python number, or a Series.
Number: TypeAlias = Any
_HUGE = 2.0**64


class Series:
    """The coefficients c[0] + c[1] t + ... + c[n] t^n of a function of t near 0, as mpmath numbers."""

    __slots__ = ("c",)

    def __init__(self, coefficients: list[Any]) -> None:
        self.c = coefficients

    def _of(self, other: Number) -> list[Any]:
        return other.c if isinstance(other, Series) else [other] + [0] * (len(self.c) - 1)

    def __add__(self, other: Number) -> Series:
        return Series([a + b for a, b in zip(self.c, self._of(other), strict=True)])

    def __neg__(self) -> Series:
        return Series([-a for a in self.c])

    def __sub__(self, other: Number) -> Series:
        return Series([a - b for a, b in zip(self.c, self._of(other), strict=True)])

    def __rsub__(self, other: Number) -> Series:
        return Series([b - a for a, b in zip(self.c, self._of(other), strict=True)])

    def __mul__(self, other: Number) -> Series:
        if not isinstance(other, Series):
            return Series([a * other for a in self.c])
        return Series([sum(self.c[j] * other.c[i - j] for j in range(i + 1)) for i in range(len(self.c))])

    def __truediv__(self, other: Number) -> Series:
        if not isinstance(other, Series):
            return Series([a / other for a in self.c])
        quotient: list[Any] = []
        for i, a in enumerate(self.c):
            known = sum(quotient[j] * other.c[i - j] for j in range(i))
            quotient.append((a - known) / other.c[0])
        return Series(quotient)

    def __rtruediv__(self, other: Number) -> Series:
        return Series(self._of(other)) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __lt__(self, other: Number) -> bool:
        return bool(self.c[0] < self._of(other)[0])

    def __le__(self, other: Number) -> bool:
        return bool(self.c[0] <= self._of(other)[0])

    def __gt__(self, other: Number) -> bool:
        return bool(self.c[0] > self._of(other)[0])

    def __ge__(self, other: Number) -> bool:
        return bool(self.c[0] >= self._of(other)[0])

    def __abs__(self) -> Series:
        return self if self.c[0] >= 0 else -self


class SeriesContext:
    """The functions an oracle may use, for `Series` and for plain numbers, in the precision that `mp` has at the call.

    Each is given by its value and its derivative in a form that does not cancel: tanh' is sech^2, not 1 - tanh^2.
    """

    def __init__(self, mp: Any) -> None:
        self._mp = mp
        self.mpf = mp.mpf

    @property
    def pi(self) -> Any:
        return +self._mp.pi

    def _lift(self, value: Callable[[Any], Any], slope: Callable[[Any], Any], u: Number) -> Any:
        if not isinstance(u, Series):
            return value(u)
        first = value(u.c[0])
        if len(u.c) == 1:
            return Series([first])
        outer = slope(Series(u.c[:-1]))
        inner = Series([i * a for i, a in enumerate(u.c)][1:])
        return Series([first] + [a / i for i, a in enumerate((outer * inner).c, start=1)])

    def exp(self, u: Number) -> Any:
        if not isinstance(u, Series):
            return self._exp(u)
        # exp is its own derivative: the recurrence calls it once where _lift would once for every order.
        out = [self._exp(u.c[0])]
        for i in range(1, len(u.c)):
            out.append(sum(j * u.c[j] * out[i - j] for j in range(1, i + 1)) / i)
        return Series(out)

    def _exp(self, u: Any) -> Any:
        mp = self._mp
        if abs(u) < _HUGE:
            return mp.exp(u)
        # mpmath would work in the precision of the whole argument for minutes; only its reduction needs that.
        with mp.workprec(mp.prec + mp.mag(u) + 10):
            power = int(mp.floor(u / mp.ln2))
            rest = u - power * mp.ln2
        return mp.ldexp(mp.exp(rest), power)

    def expm1(self, u: Number) -> Any:
        return self._lift(lambda v: self._mp.expm1(v) if abs(v) < _HUGE else self._exp(v) - 1, self.exp, u)

    def log1p(self, u: Number) -> Any:
        return self._lift(self._mp.log1p, lambda v: 1 / (1 + v), u)

    def sqrt(self, u: Number) -> Any:
        return self._lift(self._mp.sqrt, lambda v: 1 / (2 * self.sqrt(v)), u)

    def tanh(self, u: Number) -> Any:
        return self._lift(self._mp.tanh, self._sech2, u)

    def _sech2(self, u: Number) -> Any:
        decay = self.exp(-2 * u)
        return 4 * decay / ((1 + decay) * (1 + decay))

    def erfc(self, u: Number) -> Any:
        return self._lift(self._erfc, lambda v: self.exp(-(v * v)) * (-2 / self._mp.sqrt(self._mp.pi)), u)

    def _erfc(self, u: Any) -> Any:
        mp = self._mp
        if abs(u) < 1e9:
            return mp.erfc(u)
        if u < 0:
            return 2 - self._erfc(-u)
        # mpmath's own erfc overflows from 1e155 on; the asymptotic series needs few terms out here.
        term, total, k = mp.mpf(1), mp.mpf(0), 0
        while abs(term) > mp.eps:
            total += term
            k += 1
            term *= -(2 * k - 1) / (2 * u * u)
        return self._exp(-u * u) / (u * mp.sqrt(mp.pi)) * total
