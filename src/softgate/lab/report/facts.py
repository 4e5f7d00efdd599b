"""Free-form blocks of a document (plan, data, environment ...) as terms and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from softgate.errors import clean
from softgate.lab.report.words import MISSING, Format, duration, share, significant, size

# Keys of the free-form blocks which do not read as words.
_TERMS = {
    "assumed_sd": "assumed SD of a paired difference",
    "budget_seconds": "budget",
    "busy_share": "workers busy",
    "bytes": "size",
    "cpu": "CPU",
    "cpu_capability": "CPU capability",
    "d_model": "model width",
    "git": "git commit",
    "hash": "content hash",
    "held_out_bytes": "held-out text",
    "larger": "with a larger budget",
    "ngrams": "n-gram models",
    "skipped": "files skipped",
    "smallest_detectable_sd": "smallest detectable, in SDs",
    "smallest_detectable": "smallest detectable difference",
    "text_hash": "text hash",
    "train_bytes": "training text",
}


@dataclass(frozen=True)
class Facts:
    """A titled list of terms and values."""

    title: str
    items: tuple[tuple[str, str], ...]
    kind: Literal["facts"] = "facts"


# The end of a key is its unit.
_FORMS: dict[str, Format] = {"seconds": duration, "bytes": size, "share": share}


def _said(key: str, value: Any) -> str:
    """A value of a free-form block, by the suffix of its key."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return next((form for suffix, form in _FORMS.items() if key.endswith(suffix)), significant)(value)
    if isinstance(value, Mapping):
        # A key without a unit, such as the name of an arm, has that of the whole.
        unit = next((suffix for suffix in _FORMS if key.endswith(suffix)), "")
        parts = ((str(k), v) for k, v in value.items())
        return ", ".join(f"{_term(k)} {_said(k if k.endswith(tuple(_FORMS)) else unit, v)}" for k, v in parts) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_said(key, item) for item in value) or "none"
    return clean(value, 400) or MISSING


def _term(key: str) -> str:
    """
    >>> _term("wall_seconds"), _term("train_bytes"), _term("ngrams"), _term("heads")
    ('wall time', 'training text', 'n-gram models', 'heads')
    """
    words = _TERMS.get(key) or clean(key).replace("_", " ")
    return words.removesuffix(" seconds") + " time" if words.endswith(" seconds") else words


def facts(title: str, block: Mapping[str, Any]) -> Facts:
    """A free-form block as terms and values, in its own order.

    >>> facts("Execution", {"wall_seconds": 90.0, "retries": 0}).items
    (('Wall time', '1 min 30 s'), ('Retries', '0'))
    """
    said = ((_term(str(key)), _said(str(key), value)) for key, value in block.items())
    return Facts(title, tuple((term[:1].upper() + term[1:], value) for term, value in said))
