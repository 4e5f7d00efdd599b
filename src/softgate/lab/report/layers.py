"""Charts of health by layer and arm: units, activations, gradients. No statistics here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from softgate.errors import clean
from softgate.lab.report.draw import (
    ROW,
    Figure,
    Spec,
    axis,
    bars,
    hover,
    layout,
    legend,
    looks,
    points,
    row_axis,
    text,
    upright,
)
from softgate.lab.report.tables import Block, Cell, Table, View, arm_rows, cell, lookup, missing
from softgate.lab.report.words import MISSING, Format, fixed, share, significant, span

_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def health(view: View) -> list[Figure]:
    """Every chart for which some arm has numbers."""
    by_layer: tuple[tuple[str, str, str, Format], ...] = (
        ("dead", "Dead units", "share of units", share),
        ("saturated", "Saturated units", "share of units", share),
        ("rms", "Size of the activations", "root mean square, no unit", significant),
        ("kurtosis", "Kurtosis of the activations", "no unit", significant),
    )
    charts = [_layers(view, *wanted) for wanted in by_layer]
    return [chart for chart in (*charts, slopes(view), gradients(view)) if chart is not None]


def _measured(view: View) -> list[Block]:
    return [arm for arm in view.arms if lookup(arm, "health", "layers")]


def _layers(view: View, key: str, title: str, unit: str, form: Format) -> Figure | None:
    """One quantity against the layer, one line an arm; the range over the seeds where the document has it."""
    arms = [arm for arm in _measured(view) if any(layer.get(key) is not None for layer in arm["health"]["layers"])]
    if not arms:
        return None
    styles, traces, ranged = looks(view), [], False
    for turn, arm in enumerate(arms):
        name, style = view.name(arm["arm"]), styles[arm["arm"]]
        at = [layer for layer in arm["health"]["layers"] if layer.get(key) is not None]
        ranges = [layer.get(f"{key}_range") for layer in at]
        # Bars of several arms would hide each other.
        aside = 0.06 * (turn - (len(arms) - 1) / 2) if all(ranges) else 0.0
        x, y = [layer["layer"] + aside for layer in at], [layer[key] for layer in at]
        said = [
            hover(
                name, f"layer {layer['layer']}", form(layer[key]), f"{span(pair, form)} over the seeds" if pair else ""
            )
            for layer, pair in zip(at, ranges, strict=True)
        ]
        line = points(x, y, said, view.label(arm["arm"]), style, mode="lines+markers")
        if all(ranges):
            ranged = True
            line["error_y"] = bars([pair[0] for pair in ranges], y, [pair[1] for pair in ranges], style["color"])
        traces.append(line)
    count = sorted({layer["layer"] for arm in arms for layer in arm["health"]["layers"]})
    y_axis = axis(unit.capitalize(), rangemode="tozero", tickformat="~%" if form is share else "~g")
    return Figure(
        key=key,
        title=title,
        caption=f"{title} by layer (0 is nearest the input): {unit}, mean over the seeds; {view.n(arms)}. "
        + ("Bars: range over the seeds, not an interval." if ranged else "No interval."),
        label=f"Line chart of {title.lower()} by layer for {len(arms)} arms.",
        legend=legend(view, [arm["arm"] for arm in arms]),
        spec={"data": traces, "layout": layout(300, axis("Layer", tickvals=count), y_axis)},
        table=Table(
            f"{title} by layer, {unit}",
            ("Arm", *(f"Layer {index}" for index in count)),
            arm_rows(view, arms, *(_layer_cell(index, key, form) for index in count)),
        ),
        half=True,
    )


def _layer_cell(index: int, key: str, form: Format) -> Callable[[Block], Cell]:
    def at(arm: Block) -> Cell:
        found = [layer for layer in arm["health"]["layers"] if layer["layer"] == index]
        if not found:
            return Cell(MISSING, "no such layer")
        pair = found[0].get(f"{key}_range")
        return cell(found[0], key, form, span(pair, form) if pair else "")

    return at


def _bound(bound: str) -> str:
    """
    >>> _bound("1e-3")
    '10⁻³'
    """
    mantissa, _, power = bound.partition("e")
    return f"10{power.translate(_POWERS)}" if mantissa == "1" and power else bound


def slopes(view: View) -> Figure | None:
    """Share of pre-activations whose slope is small, as a table of shaded cells: a row for each arm and layer."""
    found = [(arm, layer) for arm in _measured(view) for layer in arm["health"]["layers"] if layer.get("small_slope")]
    if not found:
        return None
    bounds = list(dict.fromkeys(bound for _, layer in found for bound in layer["small_slope"]))
    columns = [_bound(clean(bound)) for bound in bounds]
    shares = [[layer["small_slope"].get(bound) for bound in bounds] for _, layer in found]
    rows = [f"{view.label(arm['arm'])} · {layer['layer']}" for arm, layer in found]
    said = [
        [
            hover(view.name(arm["arm"]), f"layer {layer['layer']}", f"|f′| below {column}: {_share(value)}")
            for column, value in zip(columns, line, strict=True)
        ]
        for (arm, layer), line in zip(found, shares, strict=True)
    ]
    trace: Spec = {
        "type": "heatmap",
        "x": list(range(len(bounds))),
        "y": list(range(len(rows))),
        "z": shares,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "--heat-0"], [1, "--heat-1"]],
        # Whole percents in the cells, which are narrow on a phone; the table has more digits.
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "text": [["" if value is None else fixed(100 * value, 0) for value in line] for line in shares],
        "texttemplate": "%{text}",
        "textfont": {"size": 11, "color": "--ink"},
        "hovertext": said,
        "hoverinfo": "text",
    }
    x = axis("|f′| below", tickvals=list(range(len(bounds))), ticktext=[text(c) for c in columns], showgrid=False)
    breaks = [row + 0.5 for row, (one, two) in enumerate(pairwise(found)) if one[0]["arm"] != two[0]["arm"]]
    arms = list({arm["arm"]: arm for arm, _ in found}.values())
    return Figure(
        key="slopes",
        title="Vanishing slopes",
        caption="Share of pre-activations, in %, whose slope |f′| is below each bound; a row for each arm · layer; "
        f"mean over the seeds, no interval; {view.n(arms)}. Such a unit passes next to no gradient.",
        label=f"Table of shaded cells: share of small slopes by layer for {len(arms)} arms.",
        spec={
            "data": [trace],
            "layout": layout(90 + 24 * len(rows), x, row_axis(rows), shapes=[_across(y) for y in breaks]),
        },
        table=Table(
            "Share of pre-activations with a slope below each bound",
            ("Arm", "Layer", *(f"Below {column}" for column in columns)),
            tuple(
                (Cell(view.name(arm["arm"])), Cell(str(layer["layer"])), *(Cell(_share(value)) for value in line))
                for (arm, layer), line in zip(found, shares, strict=True)
            ),
        ),
    )


def _share(value: float | None) -> str:
    return MISSING if value is None else share(value)


def _across(y: float) -> Spec:
    line = {"color": "--ink", "width": 1}
    return {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def gradients(view: View) -> Figure | None:
    """First-to-last-layer gradient ratio of each arm at the start and at the end of training."""
    arms = [arm for arm in view.arms if lookup(arm, "health", "gradient_ratio")]
    styles, traces = looks(view), []
    for row, arm in enumerate(arms):
        ratio, style = arm["health"]["gradient_ratio"], styles[arm["arm"]]
        ends = [(when, ratio[when]) for when in ("start", "end") if ratio.get(when) is not None]
        said = [hover(view.name(arm["arm"]), f"at the {when}", significant(value)) for when, value in ends]
        # Hollow at the start, filled at the end, joined: the direction shows without colour.
        symbols = [("circle-open" if when == "start" else "circle") for when, _ in ends]
        trace = points([v for _, v in ends], [row] * len(ends), said, view.label(arm["arm"]), style)
        traces.append(trace | {"mode": "lines+markers", "marker": {**trace["marker"], "symbol": symbols, "size": 11}})
    if not any(trace["x"] for trace in traces):
        return None
    x = axis("First layer / last layer", type="log", tickformat="~g", tickangle=None)
    names = row_axis([view.label(arm["arm"]) for arm in arms])

    def when(key: str) -> Callable[[Block], Cell]:
        def at(arm: Block) -> Cell:
            ratio = lookup(arm, "health", "gradient_ratio")
            return missing(ratio) if lookup(ratio, key) is None else Cell(significant(ratio[key]))

        return at

    return Figure(
        key="gradients",
        title="Gradient from first to last layer",
        caption=f"Ratio of gradient norms, first to last layer (no unit, logarithmic axis), mean over "
        f"the seeds, no interval; {view.n(arms)}. Hollow: start of training, filled: end. Far below 1 the gradient "
        "vanishes on its way down.",
        label=f"Dot chart of the first-to-last-layer gradient ratio for {len(arms)} arms.",
        spec={"data": traces, "layout": layout(90 + ROW * len(arms), x, names, shapes=[upright(1.0, "--ink")])},
        table=Table(
            "First-to-last-layer gradient ratio",
            ("Arm", "Start", "End"),
            arm_rows(view, arms, when("start"), when("end")),
        ),
    )
