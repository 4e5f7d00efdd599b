"""Parts of the report's charts: looks of arms, axes, layouts and traces as plain Plotly dicts.

Colours are names of CSS custom properties, which the page's script resolves, so that one figure serves the light and
the dark scheme and paper. Every text is escaped, because Plotly reads markup in texts.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from softgate.lab.report.tables import Table, View

Spec = dict[str, Any]

# One step through all three at once: colour is never the only sign, and 6 x 5 x 7 = 210 arms look different.
_COLOURS = 6
_DASHES = {"dash": "7 3", "dashdot": "7 3 2 3", "longdash": "11 3", "longdashdot": "11 3 2 3", "solid": "none"}
_SYMBOLS = {
    "square": "M-4-4h8v8h-8z",
    "triangle-up": "M0-5 5 4h-10z",
    "diamond": "M0-6 6 0 0 6-6 0z",
    "cross": "M-2-5h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
    "star": "M0-6 1.5-2h4.3l-3.4 2.8 1.2 4.2L0 2.6-3.6 5l1.2-4.2L-5.8-2h4.3z",
    "triangle-down": "M0 5-5-4h10z",
    "hexagon": "M-5 0-2.5-4.5h5L5 0 2.5 4.5h-5z",
}
# What the legend needs besides: the looks of the baseline and of the A/A arm.
_STROKES = {**_DASHES, "dot": "2 3"}
_CIRCLE = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z"
_PATHS = {**_SYMBOLS, "circle": _CIRCLE, "circle-open": _CIRCLE}
# An arm of which only runs are known, no results.
OTHER: Spec = {"color": "--muted", "dash": "solid", "symbol": "circle"}
ROW = 36  # pixels for one row of a chart whose rows are arms


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a name, and its mark as SVG. Plotly's own legend breaks when names are long."""

    name: str
    colour: str
    stroke: str
    path: str
    hollow: bool
    line: bool


def entry(name: str, style: Spec, *, line: bool) -> Key:
    """A legend entry for points drawn in this style, joined by a line or not."""
    symbol = style["symbol"]
    return Key(name, style["color"], _STROKES[style["dash"]], _PATHS[symbol], symbol.endswith("-open"), line)


@dataclass(frozen=True)
class Figure:
    """A chart: `label` is its one-sentence description for a screen reader, `table` holds the same values."""

    key: str
    title: str
    caption: str
    label: str
    spec: Spec
    table: Table
    legend: tuple[Key, ...] = ()
    half: bool = False
    kind: Literal["figure"] = "figure"


def text(value: str) -> str:
    """Plotly shows `<b>` as bold; here texts are texts.

    >>> text("<b>gelu</b>")
    '&lt;b&gt;gelu&lt;/b&gt;'
    """
    return html.escape(value, quote=False)


def looks(view: View) -> dict[str, Spec]:
    """Colour, dash and symbol of each arm: the baseline in ink, the A/A arm grey, the others in turn."""
    styles: dict[str, Spec] = {}
    dashes, symbols = list(_DASHES), list(_SYMBOLS)
    turn = 0
    for arm in view.arms:
        if arm["role"] == "baseline":
            colour, dash, symbol = "--ink", "solid", "circle"
        elif arm["role"] == "aa":
            colour, dash, symbol = "--aa", "dot", "circle-open"
        else:
            colour = f"--arm-{turn % _COLOURS}"
            dash, symbol = dashes[turn % len(dashes)], symbols[turn % len(symbols)]
            turn += 1
        styles[arm["arm"]] = {"color": colour, "dash": dash, "symbol": symbol}
    return styles


def legend(view: View, arms: Iterable[str], *, line: bool = True) -> tuple[Key, ...]:
    """One entry an arm, in the order given."""
    styles = looks(view)
    return tuple(entry(view.label(arm), styles.get(arm, OTHER), line=line) for arm in arms)


def axis(title: str, **more: Any) -> Spec:
    return {
        "title": {"text": text(title if len(title) <= 40 else f"{title[:39]}…"), "standoff": 8, "font": {"size": 13}},
        "tickangle": 0,
        "automargin": True,
        "showgrid": True,
        "gridcolor": "--grid",
        "zeroline": False,
        "linecolor": "--rule",
        "showline": True,
        "ticks": "outside",
        "tickcolor": "--rule",
        **more,
    }


def layout(height: int, x: Spec, y: Spec, **more: Any) -> Spec:
    return {
        "height": height,
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "--ink"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "--paper", "bordercolor": "--ink", "font": {"color": "--ink"}, "namelength": -1},
        "showlegend": False,
        "xaxis": x,
        "yaxis": y,
        **more,
    }


def row_axis(labels: Sequence[str]) -> Spec:
    """A vertical axis whose rows are names, the first on top."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [text(label).replace("\n", "<br>") for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "ticks": "outside",
        "tickcolor": "rgba(0,0,0,0)",
        "showgrid": False,
        "zeroline": False,
        "showline": False,
    }


def points(x: Sequence[Any], y: Sequence[Any], hover: Sequence[str], name: str, style: Spec, **more: Any) -> Spec:
    """Markers (and lines) of one arm; the hover text is ours, so that nothing in a name is read as a template."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(x),
        "y": list(y),
        "hovertext": list(hover),
        "hoverinfo": "text",
        "name": text(name),
        "line": {"color": style["color"], "dash": style["dash"], "width": 2},
        "marker": {"color": style["color"], "symbol": style["symbol"], "size": 9, "opacity": 1},
        **more,
    }


def bars(low: Sequence[float], middle: Sequence[float], high: Sequence[float], colour: str) -> Spec:
    return {
        "type": "data",
        "symmetric": False,
        "array": [h - m for h, m in zip(high, middle, strict=True)],
        "arrayminus": [m - b for b, m in zip(low, middle, strict=True)],
        "color": colour,
        "thickness": 2,
        "width": 5,
    }


def band(low: float, high: float) -> Spec:
    """A shaded stretch of the horizontal axis, behind the marks."""
    box = {"type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0, "y1": 1, "layer": "below"}
    return {**box, "fillcolor": "--band", "line": {"width": 0}}


def upright(x: float, colour: str = "--rule", dash: str = "solid") -> Spec:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "line": {"color": colour, "width": 1.5, "dash": dash},
    }


def hover(*lines: str) -> str:
    return "<br>".join(text(line) for line in lines if line)


def top_axis() -> Spec:
    """A second vertical axis without marks, for crosses on the upper edge: runs that have no value to place."""
    return {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}


def crosses(x: Sequence[Any], said: Sequence[str], name: str, style: Spec, turn: int) -> Spec:
    """Runs that diverged or failed, named, near the upper edge of the chart (`top_axis`), never left out.

    `turn` counts the arms that have such runs: each gets a height of its own.
    """
    marker = {"color": style["color"], "symbol": "x-thin", "size": 10, "line": {"width": 2.5, "color": style["color"]}}
    trace = points(x, [0.96 - 0.06 * turn] * len(x), said, name, style, yaxis="y2", mode="markers+text", marker=marker)
    label = {"textposition": "middle left", "textfont": {"size": 11, "color": "--muted"}}
    # All are at one height, so that the name beside the first stands for the row.
    return {**trace, **label, "text": [text(name) if at == min(x) else "" for at in x]}
