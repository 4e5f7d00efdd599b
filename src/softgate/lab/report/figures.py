"""Charts of the comparison itself: differences, costs, amounts. No statistics here."""

from __future__ import annotations

from collections.abc import Callable

from softgate.errors import clean
from softgate.lab.report.draw import (
    ROW,
    Figure,
    Spec,
    axis,
    band,
    bars,
    entry,
    hover,
    layout,
    looks,
    points,
    row_axis,
    upright,
)
from softgate.lab.report.tables import Block, Cell, Table, View, arm_rows, cell, difference_cell, estimate, lookup
from softgate.lab.report.words import MISSING, Format, fixed, significant, size, span


def _forest(view: View, rows: list[tuple[Block, Block | None]]) -> Spec:
    """Paired differences with intervals, one row an arm; `rows` pairs an arm with the block that holds the numbers."""
    styles, traces, notes = looks(view), [], []
    for row, (arm, source) in enumerate(rows):
        style = styles[arm["arm"]]
        if source is None or source.get("difference") is None:
            at = {"xref": "paper", "x": 0.5, "y": row, "showarrow": False}
            notes.append({**at, "text": MISSING, "font": {"color": "--muted"}})
            continue
        pair, middle = source.get("interval"), source["difference"]
        said = hover(
            view.name(arm["arm"]),
            f"{view.difference(middle)} {view.unit}",
            f"{view.level} interval {span(pair, view.difference)}" if pair else "",
            f"n = {source.get('n', arm['n'])}",
        )
        more = {"error_x": bars([pair[0]], [middle], [pair[1]], style["color"])} if pair else {}
        traces.append(points([middle], [row], [said], view.label(arm["arm"]), style, **more))
    margin, shapes = view.document.get("margin"), [upright(0.0, "--ink")]
    if margin is not None:
        shapes = [band(-margin, margin), upright(-margin, dash="dot"), upright(margin, dash="dot"), *shapes]
    x = axis(view.unit, tickformat="~g", autorangeoptions={"include": [-1.2 * (margin or 0), 1.2 * (margin or 0)]})
    x["title"]["text"] += "<br>better ← 0 → worse"
    labels = [view.label(arm["arm"]) + ("\nnoise floor" if arm["role"] == "aa" else "") for arm, _ in rows]
    height = 110 + ROW * len(rows)
    return {"data": traces, "layout": layout(height, x, row_axis(labels), shapes=shapes, annotations=notes)}


def forest(view: View) -> Figure:
    """The headline: paired differences, the margin, zero and the noise floor."""
    margin, floor = view.document.get("margin"), view.document.get("noise_floor")
    caption = (
        f"Mean paired difference in {view.metric} from {view.baseline}, {view.unit}, with {view.level} t interval; "
        f"{view.n(view.others)} (runs, each paired with the baseline's of the same seed). Left of zero is better."
    )
    if margin is not None:
        caption += f" The shaded band is the margin of ±{significant(margin)}, fixed beforehand."
    if floor:
        caption += (
            f" The noise floor is {view.baseline} against itself in another data order, what chance alone does: "
            f"its interval {'includes' if floor['inside'] else 'does not include'} zero."
        )
    return Figure(
        key="forest",
        title="Forest plot",
        caption=caption,
        label=f"Forest plot of the difference in {view.metric} from {view.baseline} for {len(view.others)} arms.",
        spec=_forest(view, [(arm, arm) for arm in view.others]),
        table=Table(
            f"Difference from {view.baseline}, {view.unit}",
            ("Arm", "Difference", f"{view.level} interval", "n"),
            arm_rows(
                view,
                view.others,
                lambda arm: cell(arm, "difference", view.difference),
                lambda arm: cell(arm, "interval", lambda pair: span(pair, view.difference)),
                lambda arm: cell(arm, "n", significant),
            ),
        ),
    )


def equal_time(view: View) -> Figure:
    """Differences when every arm is given the same time instead of the same steps."""
    arms = [arm for arm in view.others if arm["role"] != "aa"]
    methods = dict.fromkeys(clean(arm["equal_time"]["method"], 240) for arm in arms if arm.get("equal_time"))
    return Figure(
        key="equal-time",
        title="Difference at equal time",
        caption=f"Mean paired difference in {view.metric} from {view.baseline}, {view.unit}, when every arm has the "
        f"same time, with {view.level} interval; {view.n(arms)}. Method: {'; '.join(methods)}.",
        label=f"Forest plot of the difference in {view.metric} from {view.baseline} at equal training time.",
        spec=_forest(view, [(arm, arm.get("equal_time")) for arm in arms]),
        table=Table(
            f"At equal time, {view.unit}",
            ("Arm", "Loss", f"Difference from {view.baseline}"),
            arm_rows(
                view,
                [arm for arm in view.arms if arm["role"] != "aa"],
                lambda arm: cell(arm.get("equal_time"), "loss", view.loss),
                lambda arm: difference_cell(view, arm.get("equal_time"), arm["role"]),
            ),
        ),
    )


COSTS = (
    ("Time for the same steps", "speed", "time_ratio", {"color": "--ink", "symbol": "circle", "dash": "solid"}),
    ("Steps to the target", "to_target", "steps_ratio", {"color": "--arm-0", "symbol": "square", "dash": "solid"}),
    ("Time to the target", "to_target", "seconds_ratio", {"color": "--arm-1", "symbol": "diamond", "dash": "solid"}),
)


def _three(value: float) -> str:
    return fixed(value, 3)


def costs(view: View) -> Figure:
    """Cost against the baseline: time for the same steps, steps and time to the common target."""
    arms, traces = [arm for arm in view.others if arm["role"] != "aa"], []
    for turn, (title, block, key, style) in enumerate(COSTS):
        found = [(row, lookup(arm, block, key)) for row, arm in enumerate(arms)]
        known = [(row, ratio) for row, ratio in found if ratio and None not in ratio.values()]
        low, middle, high = ([ratio[part] for _, ratio in known] for part in ("low", "estimate", "high"))
        said = [
            hover(
                view.name(arms[row]["arm"]),
                title,
                fixed(ratio["estimate"], 3),
                span((ratio["low"], ratio["high"]), _three),
            )
            for row, ratio in known
        ]
        y = [row + 0.25 * (turn - 1) for row, _ in known]
        traces.append(points(middle, y, said, title, style, error_x=bars(low, middle, high, style["color"])))
    x = axis(f"Ratio to {view.label(view.document['baseline'])}", type="log", tickformat="~g", tickangle=None)
    names = row_axis([view.label(arm["arm"]) for arm in arms])

    def ratio_cell(block: str, key: str) -> Callable[[Block], Cell]:
        return lambda arm: estimate(arm.get(block), key)

    return Figure(
        key="cost",
        title="Cost relative to the baseline",
        caption=f"Ratio of arm to {view.baseline} (no unit, logarithmic axis) with {view.level} interval; "
        f"{view.n(arms)}. Left of 1 is cheaper.",
        label=f"Cost of each arm relative to {view.baseline}: time for the same steps, and to a common loss.",
        legend=tuple(entry(title, style, line=False) for title, _, _, style in COSTS),
        spec={"data": traces, "layout": layout(90 + 60 * len(arms), x, names, shapes=[upright(1.0, "--ink")])},
        table=Table(
            f"Ratio of arm to {view.baseline}, with {view.level} interval",
            ("Arm", *(title for title, _, _, _ in COSTS)),
            arm_rows(view, arms, *(ratio_cell(block, key) for _, block, key, _ in COSTS)),
        ),
    )


def _whole(value: float) -> str:
    return fixed(value, 0)


def amounts(view: View) -> list[Figure]:
    """Throughput and memory of each arm, as bars from zero."""
    wanted: tuple[tuple[str, str, str, str, Format], ...] = (
        ("tokens_per_second", "Throughput", "tokens/s", "median of the runs", _whole),
        ("peak_memory_bytes", "Peak memory", "bytes", "largest of the runs", size),
        ("saved_bytes_per_token", "Kept for the backward pass", "bytes a token", "equal in all runs", _whole),
    )
    styles, charts = looks(view), []
    for key, title, unit, which, form in wanted:
        known = [arm for arm in view.arms if lookup(arm, "speed", key) is not None]
        if not known:
            continue
        values = [arm["speed"][key] for arm in known]
        trace = {
            "type": "bar",
            "orientation": "h",
            "x": values,
            "y": list(range(len(known))),
            "width": 0.6,
            "text": [form(value) for value in values],
            "textangle": 0,
            "marker": {"color": [styles[arm["arm"]]["color"] for arm in known]},
            "hovertext": [
                hover(view.name(a["arm"]), f"{title}: {form(v)}") for a, v in zip(known, values, strict=True)
            ],
            "hoverinfo": "text",
        }
        x = axis(unit, rangemode="tozero", nticks=5, tickformat="~s")
        charts.append(
            Figure(
                key=key.replace("_", "-"),
                title=title,
                caption=f"{title} in {unit}, {which} of an arm, without interval; {view.n(known)}.",
                label=f"Bar chart of {title.lower()} for {len(known)} arms.",
                spec={
                    "data": [trace],
                    "layout": layout(80 + ROW * len(known), x, row_axis([view.label(arm["arm"]) for arm in known])),
                },
                table=Table(
                    f"{title}, {unit}",
                    ("Arm", title),
                    arm_rows(view, view.arms, lambda arm, key=key, form=form: cell(arm.get("speed"), key, form)),  # type: ignore[misc]
                ),
                half=True,
            )
        )
    return charts
