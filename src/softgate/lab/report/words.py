"""Values as text: sensible digits, a real minus sign, units; one spelling for tables, captions and charts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

MISSING = "not available"
_MINUS = "\u2212"
_NBSP = "\u00a0"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Format = Callable[[Any], str]


def prose(text: str) -> str:
    """A sentence with a real minus before its negative numbers; dates and options keep their hyphens.

    >>> prose("-0.02 to (-0.01), 2026-12-01")
    '−0.02 to (−0.01), 2026-12-01'
    """
    return re.sub(r"(?<![^\s(])-(?=\d)", _MINUS, text)


def fixed(value: float, places: int) -> str:
    """
    >>> fixed(-1234.5, 1)
    '−1,234.5'
    >>> fixed(-0.0001, 2)
    '0.00'
    """
    text = f"{value:,.{places}f}"
    return text.replace("-", _MINUS) if text.strip("-0.,") else text.lstrip("-")


def signed(value: float, places: int) -> str:
    """
    >>> signed(0.01234, 3), signed(-0.5, 3), signed(0.0, 3)
    ('+0.012', '−0.500', '0.000')
    """
    text = fixed(value, places)
    return text if value <= 0 or not text.strip("0.,") else f"+{text}"


def significant(value: float, digits: int = 3) -> str:
    """
    >>> significant(0.004), significant(215000), significant(1.8e-9), significant(-2.0)
    ('0.004', '215,000', '1.8 × 10⁻⁹', '−2')
    """
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e9:
        return fixed(value, 0)
    power = math.floor(math.log10(abs(value)))
    if -6 <= power < 6:
        text = fixed(value, max(0, digits - 1 - power))
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa = f"{value / 10.0**power:.{digits - 1}f}".rstrip("0").rstrip(".")
    return f"{mantissa} × 10{str(power).translate(_SUPERSCRIPT)}".replace("-", _MINUS)


def share(value: float) -> str:
    """
    >>> share(0.1234), share(0.0), share(1e-6), share(1.0)
    ('12.3\xa0%', '0\xa0%', '< 0.01\xa0%', '100\xa0%')
    """
    percent = 100.0 * value
    if 0 < percent < 0.01:
        return f"< 0.01{_NBSP}%"
    return f"{significant(percent, 3 if percent >= 1 else 2)}{_NBSP}%"


def chance(value: float) -> str:
    """
    >>> chance(0.0312), chance(1e-9), chance(0.71)
    ('0.031', '< 0.0001', '0.71')
    """
    return "< 0.0001" if value < 1e-4 else significant(value, 2)


def size(value: float) -> str:
    """
    >>> size(512), size(3e6), size(1.5e9)
    ('512 bytes', '3 MB', '1.5 GB')
    """
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if abs(value) >= 10**power:
            return f"{significant(value / 10**power)} {unit}"
    return f"{significant(value)} bytes"


def duration(value: float) -> str:
    """
    >>> duration(0.0123), duration(240), duration(3725)
    ('0.0123 s', '4 min', '1 h 2 min')
    """
    if value < 60:
        return f"{significant(value)} s"
    hours, seconds = divmod(round(value), 3600)
    parts = (hours, "h"), (seconds // 60, "min"), (0 if hours else seconds % 60, "s")
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def span(pair: Sequence[float], form: Format) -> str:
    """
    >>> span([-0.02, 0.004], lambda x: signed(x, 3))
    '−0.020 to +0.004'
    """
    return f"{form(pair[0])} to {form(pair[1])}"


def places(width: float) -> int:
    """Decimals that show two significant digits of an interval this wide.

    >>> places(0.016), places(3.0), places(0.0)
    (3, 1, 4)
    """
    return min(8, max(0, 1 - math.floor(math.log10(width)))) if width > 0 else 4
