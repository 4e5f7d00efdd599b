"""The page: sections in order, filled into one template; and writing it in one piece."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from softgate.errors import BadInput, clean
from softgate.files import atomic_write
from softgate.lab.report import curves, figures, layers, tables
from softgate.lab.report.draw import Figure
from softgate.lab.report.facts import Facts, facts
from softgate.lab.report.tables import Table, View
from softgate.lab.report.words import prose

# In a script element of an HTML page these could end it, open a comment or, in old engines, break a line.
_UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class Section:
    key: str
    heading: str
    blocks: tuple[Figure | Table | Facts, ...]


def render(document: Mapping[str, Any]) -> str:
    """One HTML page that shows a comparison and needs nothing from outside.

    `document` has schema `softgate.compare/1`; blocks that are null are left out. Every number on the page stands in
    the document.

    Raises:
        BadInput: the document has another schema.

    >>> render({"schema": "softgate.claims/1"})
    Traceback (most recent call last):
    softgate.errors.BadInput: a report is made from schema softgate.compare/1, not from softgate.claims/1
    """
    schema = document.get("schema")
    if schema != "softgate.compare/1":
        raise BadInput(f"a report is made from schema softgate.compare/1, not from {clean(schema)}")
    view = tables.view(document)
    scripts = [Markup(get_plotlyjs()), Markup(_asset("page.js"))]
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["embed"] = _embed
    return environment.from_string(_asset("page.html.j2")).render(
        title=clean(document["title"], 200),
        created=clean(document["created"] or "").replace("T", " "),
        version=clean((document.get("environment") or {}).get("softgate") or ""),
        complete=document["complete"],
        headline=[prose(clean(line, 1000)) for line in document["headline"]],
        verdicts=tables.verdicts(view),
        command=clean(document["command"] or "", 4000),
        sections=[section for section in _sections(view) if section.blocks],
        style=Markup(_asset("page.css")),
        scripts=scripts,
        hashes=[_hash(script) for script in scripts],
    )


def write(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Render to a file which at every moment is whole: the old one, or the new one.

    Raises:
        BadInput: the document has another schema, or the file cannot be written.
    """
    atomic_write(path, render(document))


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """What the page's content security policy lets run: these scripts and no other, whatever a name contains."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _embed(value: object) -> Markup:
    """JSON that cannot leave its script element.

    >>> _embed({"a": "</script>"})
    Markup('{"a":"\\\\u003c/script\\\\u003e"}')
    """
    return Markup(json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE))


def _sections(view: View) -> list[Section]:
    document = view.document
    differences = [arm for arm in view.others if arm.get("difference") is not None]
    timed = [arm for arm in view.others if arm.get("equal_time")]
    costed = [arm for arm in view.others if any(tables.lookup(arm, block, key) for _, block, key, _ in figures.COSTS)]
    lines = [figure for late in (False, True) if (figure := curves.curves(view, late=late))]
    pilot = curves.pilot(view)
    common = [arm for arm in view.arms if arm.get("common_lr")]
    seeds = curves.seeds(view)
    measured = [arm for arm in view.arms if arm.get("metrics")]
    reached = [arm for arm in view.arms if arm.get("to_target")]
    healthy = [arm for arm in view.arms if arm.get("health")]
    return [
        Section(
            "differences",
            "Paired differences",
            (
                *([figures.forest(view)] if differences else []),
                *([tables.details(view)] if view.others else []),
                *([tables.metrics(view)] if measured else []),
            ),
        ),
        Section("curves", "Loss curves", tuple(lines)),
        Section(
            "pilot",
            "Learning rate",
            (*([pilot] if pilot else []), *([tables.rates(view)] if common or pilot else [])),
        ),
        Section(
            "health",
            "Health of the units",
            (*layers.health(view), *([tables.spikes(view)] if healthy else [])),
        ),
        Section(
            "cost",
            "Time and memory",
            (
                *([figures.equal_time(view)] if timed else []),
                *([figures.costs(view)] if costed else []),
                *([tables.targets(view)] if reached else []),
                *figures.amounts(view),
            ),
        ),
        Section("runs", "Every run", (*([seeds] if seeds else []), tables.runs(view))),
        Section(
            "plan",
            "Plan and provenance",
            tuple(
                facts(title, document[key])
                for title, key in (
                    ("Plan", "plan"),
                    ("Execution", "execution"),
                    ("Data", "data"),
                    ("Model", "model"),
                    ("Training", "training"),
                    ("Environment", "environment"),
                )
                if document.get(key)
            ),
        ),
    ]
