"""How a record shows itself: as a dictionary, as text and as an HTML table."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping
from typing import Any

_WHY_NONE = {
    "minimum": "the infimum is not attained",
    "argmin": "the infimum is not attained",
    "lipschitz": "the slope is unbounded",
    "gate_max": "the gate is not bounded",
    "up_limit": "the linear half is not bounded",
}


def _plain(value: Any, where: str, reasons: dict[str, str]) -> Any:
    """`value` as a builtin; what JSON cannot hold becomes None, with the reason under its place."""
    if value is None:
        reasons[where] = _WHY_NONE[where]
        return None
    if isinstance(value, Mapping):
        return {str(k): _plain(v, f"{where}.{k}", reasons) for k, v in value.items()}
    if isinstance(value, tuple):
        return [_plain(v, f"{where}.{i}", reasons) for i, v in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        reasons[where] = "+infinity" if value > 0 else "-infinity"
        return None
    return value


def to_dict(record: Any) -> dict[str, Any]:
    """The record's fields but its functions, as builtins; under ``reasons``, why a field is None."""
    reasons: dict[str, str] = {}
    shown: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name == "gate":
            shown["gate"] = value.name
        elif not callable(value):
            shown[field.name] = _plain(value, field.name, reasons)
    shown["gated"] = record.gated
    return {**shown, "reasons": reasons}


def _rows(record: Any) -> list[tuple[str, str]]:
    """(field, text) for every field of the record but its functions and its formula in LaTeX."""
    rows = []
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name == "gate":
            rows.append(("gate", str(value.name)))
        elif field.name != "latex" and not callable(value):
            rows.append((field.name.replace("_", " "), _shown(value, field.name)))
    return rows


def _shown(value: Any, name: str) -> str:
    if value is None:
        return f"none: {_WHY_NONE[name]}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.17g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} = {v:g}" for k, v in value.items()) or "none"
    if isinstance(value, tuple):
        if name == "zeros":
            return ", ".join(f"{lo:.17g}" if lo == hi else f"[{lo:.17g}, {hi:.17g}]" for lo, hi in value) or "none"
        return ", ".join(v if isinstance(v, str) else f"{v:.17g}" for v in value) or "none"
    return str(value)


def text(record: Any) -> str:
    """The record as aligned lines, one field each."""
    rows = _rows(record)
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {shown}" for label, shown in rows)


def html_table(record: Any) -> str:
    """The record as an HTML table; every text is escaped."""
    cells = "".join(
        f'<tr><th scope="row">{html.escape(label)}</th><td>{html.escape(shown)}</td></tr>'
        for label, shown in _rows(record)
    )
    return f"<table><caption>{html.escape(record.title)}</caption><tbody>{cells}</tbody></table>"
