"""softgate show: one activation, everything its record says, its moments and its curve."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softgate.cli.output import STDOUT, write_json
from softgate.files import atomic_write

if TYPE_CHECKING:
    from softgate import acts, theory

SCHEMA = "softgate.show/1"
_REACH = 4.0  # the curve is drawn on [-4, 4]
_POINTS = 161  # of the curve in a document and on a page: every 0.05
_ROWS = 15
_BOTH = ", both halves independent, slopes summed over both"
_LABEL = 8  # columns left of the plot, for the axis labels
_WIDEST = 100
_NARROWEST = 32


@dataclass(frozen=True)
class _Curve:
    """Value and slope at x; of a gated record, its slice along the gate at up = 1."""

    x: list[float]
    value: list[float]
    slope: list[float]
    note: str

    def ends(self) -> tuple[float, float]:
        """Lowest and highest ordinate, 0 among them."""
        return min(0.0, *self.value, *self.slope), max(0.0, *self.value, *self.slope)


@click.command(short_help="Show one activation: its record, moments and curve.")
@click.argument("name", metavar="NAME")
@click.option("--html", "html_file", metavar="FILE", help="Also write a self-contained page.")
@click.option("--json", "json_file", metavar="FILE", help="Write everything as JSON; - for standard output.")
def show(name: str, html_file: str | None, json_file: str | None) -> None:
    """Show everything softgate knows of the activation NAME, by canonical name or alias.

    The record, its moments under N(0, 1), and value and slope on [-4, 4] (of a gated function: at up = 1).
    """
    # torch takes seconds to load: not before it is needed, or `softgate --help` would wait for it.
    from softgate import acts, theory

    record = acts.get(name)
    moments = theory.moments(record.name)
    if html_file is not None:
        atomic_write(html_file, _page(record, moments, _curve(record, _POINTS)))
        click.echo(f"page: {Path(html_file).resolve()}", err=True)
    if json_file is not None:
        write_json(_document(record, moments, _curve(record, _POINTS)), json_file)
        if json_file == STDOUT:
            return
    width = max(min(shutil.get_terminal_size().columns, _WIDEST), _NARROWEST)
    blocks = [
        _wrapped(str(record), width),
        _wrapped(f"latex  {record.latex}", width),
        textwrap.fill(f"Moments under N(0, 1){_BOTH if record.gated else ''}:", width),
        _wrapped(str(moments), width),
        _plot(_curve(record, (width - _LABEL - 1) // 2 * 2 + 1), width),
    ]
    click.echo("\n\n".join(blocks))


def _curve(record: acts.Activation | acts.GatedActivation, points: int) -> _Curve:
    import torch

    from softgate import acts

    # Symmetric, with 0 itself in the middle of an odd number: linspace gives -2e-16 there.
    half = (points - 1) // 2
    x = torch.arange(-half, half + 1, dtype=torch.float64) * _REACH / half  # [points]
    if isinstance(record, acts.GatedActivation):
        up = torch.ones_like(x)
        value, slope, note = record.value(x, up), record.slopes(x, up)[0], "along the gate, at up = 1"
    else:
        value, slope, note = record.value(x), record.slope(x), ""
    return _Curve(x.tolist(), value.tolist(), slope.tolist(), note)


def _document(record: acts.Activation | acts.GatedActivation, moments: theory.Moments, curve: _Curve) -> dict[str, Any]:
    """The JSON document; values on [-4, 4] are finite for every record."""
    curves: dict[str, Any] = {
        "x": curve.x,
        "value": curve.value,
        "slope": curve.slope,
        "up": 1.0 if record.gated else None,
    }
    if not record.gated:
        curves["reasons"] = {"up": "a plain activation has one argument"}
    return {"schema": SCHEMA, "record": record.to_dict(), "moments": moments.to_dict(), "curve": curves}


# --- terminal ---------------------------------------------------------------------------------------------------------


def _wrapped(text: str, width: int) -> str:
    """Lines of 'label  value', the value kept in its column where it runs over the width."""
    lines = text.splitlines()
    first = lines[0]
    column = len(first) - len(first.partition("  ")[2].lstrip())
    fold = textwrap.TextWrapper(width, subsequent_indent=" " * column, break_on_hyphens=False)
    return "\n".join("\n".join(fold.wrap(line)) for line in lines)


def _plot(curve: _Curve, width: int) -> str:
    """Value and slope as characters: one column for each of an odd number of points, `_ROWS` rows."""
    low, high = curve.ends()
    step = (high - low) / (_ROWS - 1)

    def row(y: float) -> int:
        return round((high - y) / step)

    columns = len(curve.x)
    grid = [[" "] * columns for _ in range(_ROWS)]
    for line in grid:
        line[columns // 2] = "|"
    grid[row(0.0)] = ["-"] * columns
    grid[row(0.0)][columns // 2] = "+"
    # The value last: where both meet it is the one to see.
    for mark, ys in ((".", curve.slope), ("*", curve.value)):
        for column, y in enumerate(ys):
            grid[row(y)][column] = mark
    labels = {row(y): f"{y:.3g}" for y in (low, high, 0.0)}
    lines = [f"{labels.get(i, ''):>{_LABEL - 1}} {''.join(line)}".rstrip() for i, line in enumerate(grid)]
    axis = f"{-_REACH:g}".ljust(columns // 2) + "0"
    lines.append(" " * _LABEL + axis.ljust(columns - 1) + f"{_REACH:g}")
    legend = "* value   . slope" + (f"   ({curve.note})" if curve.note else "")
    return "\n".join([*lines, *textwrap.wrap(legend, width)])


# --- page -------------------------------------------------------------------------------------------------------------

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ record.name }}: {{ record.title }}</title>
<style>
:root { color-scheme: light dark; --value: #0b5cad; --slope: #b3470b; }
@media (prefers-color-scheme: dark) { :root { --value: #7ab8ff; --slope: #ffad7a; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
code { overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: 1.5rem 0; }
caption { text-align: left; font-weight: bold; }
th, td { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
td { overflow-wrap: anywhere; }
figure { margin: 1.5rem 0; }
svg { width: 100%; height: auto; }
svg text { fill: currentColor; font-size: 13px; }
polyline { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
.axis { stroke: currentColor; stroke-opacity: .4; }
.value { stroke: var(--value); }
.slope { stroke: var(--slope); stroke-dasharray: 6 4; }
</style>
</head>
<body>
<h1>{{ record.title }}</h1>
<p><code>{{ record.formula }}</code></p>
<p>LaTeX: <code>{{ record.latex }}</code></p>
<figure>
<svg viewBox="0 0 {{ width }} {{ height }}" role="img" aria-labelledby="what">
<title id="what">{{ what }}</title>
<line class="axis" x1="0" x2="{{ width }}" y1="{{ zero }}" y2="{{ zero }}"/>
<line class="axis" x1="{{ width / 2 }}" x2="{{ width / 2 }}" y1="0" y2="{{ height }}"/>
<polyline class="slope" points="{{ slope }}"/>
<polyline class="value" points="{{ value }}"/>
<text x="2" y="12">{{ high }}</text>
<text x="2" y="{{ height - 4 }}">{{ low }}</text>
<text x="{{ width - 2 }}" y="{{ height - 4 }}" text-anchor="end">x = 4</text>
</svg>
<figcaption>Solid: value. Dashed: slope. x from -4 to 4{{ ", " ~ note if note }}.</figcaption>
</figure>
{{ record_table }}
{{ moments_table }}
</body>
</html>
"""
_WIDTH, _HEIGHT = 480, 270


def _page(record: acts.Activation | acts.GatedActivation, moments: theory.Moments, curve: _Curve) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    low, high = curve.ends()

    def y(value: float) -> float:
        return round(8 + (_HEIGHT - 16) * (high - value) / (high - low), 1)

    def points(values: Sequence[float]) -> str:
        across = _WIDTH / (len(values) - 1)
        return " ".join(f"{i * across:.1f},{y(value)}" for i, value in enumerate(values))

    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(_TEMPLATE)
    return template.render(
        record=record,
        width=_WIDTH,
        height=_HEIGHT,
        what=f"Value and slope of {record.name} for x from -4 to 4; ordinates from {low:.3g} to {high:.3g}",
        zero=y(0.0),
        value=points(curve.value),
        slope=points(curve.slope),
        low=f"{low:.3g}",
        high=f"{high:.3g}",
        note=curve.note,
        # Both escape every text they hold.
        record_table=Markup(record._repr_html_()),
        moments_table=Markup(moments._repr_html_()),
    )
