"""Charts of runs: loss over the steps, the learning-rate pilot, final losses by seed. No statistics here."""

from __future__ import annotations

from typing import Any

from softgate.errors import clean
from softgate.lab.report.draw import (
    OTHER,
    Figure,
    Spec,
    axis,
    crosses,
    hover,
    layout,
    legend,
    looks,
    points,
    text,
    top_axis,
)
from softgate.lab.report.tables import Block, Cell, Table, View, lookup
from softgate.lab.report.words import MISSING, fixed, significant, span

Point = tuple[float, float, float | None, float | None]  # step, mean, low, high


def _curve(arm: Block, since: float) -> list[Point]:
    curve = arm.get("curve") or {"steps": [], "mean": [], "low": [], "high": []}
    every = zip(curve["steps"], curve["mean"], curve["low"], curve["high"], strict=True)
    return [point for point in every if point[0] >= since and point[1] is not None]


def _lines(view: View, since: float) -> tuple[list[Spec], dict[str, list[Point]]]:
    """A band and a line for each arm that has a curve, and their points."""
    styles, traces, drawn = looks(view), [], {}
    for arm in view.arms:
        if not (at := _curve(arm, since)):
            continue
        drawn[arm["arm"]] = at
        name, style = arm["arm"], styles[arm["arm"]]
        banded = [point for point in at if None not in point]
        band: Spec = {
            "type": "scatter",
            "mode": "lines",
            "hoverinfo": "skip",
            "line": {"width": 0},
        }
        band |= {"x": [p[0] for p in banded] + [p[0] for p in reversed(banded)], "fill": "toself", "opacity": 0.16}
        band |= {"y": [p[3] for p in banded] + [p[2] for p in reversed(banded)], "fillcolor": style["color"]}
        said = [hover(view.name(name), f"step {fixed(p[0], 0)}", f"{view.loss(p[1])} {view.unit}") for p in at]
        line = points([p[0] for p in at], [p[1] for p in at], said, view.label(name), style, mode="lines+markers")
        line["marker"]["size"] = 6
        traces += [band, line]
    return traces, drawn


def _level(view: View, name: str, value: float, ends: tuple[float, float]) -> Spec:
    """A horizontal line."""
    style = {"color": "--muted", "dash": "dot", "symbol": "circle"}
    said = [hover(f"{name} model of the text", f"{view.loss(value)} {view.unit}")] * 2
    return points(ends, [value] * 2, said, name, style, mode="lines")


def _named(name: str, value: float, end: float) -> Spec:
    at = {"x": end, "y": value, "xanchor": "right", "yanchor": "bottom", "showarrow": False}
    return {**at, "text": text(name), "font": {"color": "--muted", "size": 12}}


def curves(view: View, *, late: bool = False) -> Figure | None:
    """Held-out loss over the steps with a band for each arm, and the n-gram baselines; `late`: the second half only."""
    last = max((step for arm in view.arms for step in lookup(arm, "curve", "steps") or ()), default=0)
    since = last / 2 if late else 0
    traces, drawn = _lines(view, since)
    if not drawn:
        return None
    seen = [p[1] for at in drawn.values() for p in at]
    ngrams = lookup(view.document, "data", "ngrams") or {}
    # Enlarged, a line far from the curves would undo the enlargement.
    levels = {
        clean(name): value
        for name, value in ngrams.items()
        if value is not None and (not late or min(seen) <= value <= max(seen))
    }
    traces += [_level(view, name, value, (since, last)) for name, value in levels.items()]
    part = "second half of training, enlarged" if late else "whole training"
    known = {name: {p[0]: p for p in at} for name, at in drawn.items()}

    def value(name: str, step: float) -> Cell:
        point = known[name].get(step)
        if point is None:
            return Cell(MISSING)
        low, high = point[2:]
        return Cell(view.loss(point[1]), "" if low is None or high is None else span((low, high), view.loss))

    rows = [
        (Cell(fixed(step, 0)), *(value(name, step) for name in drawn))
        for step in sorted({step for at in known.values() for step in at})
    ]
    rows += [(Cell(name), *(Cell(view.loss(level)) for _ in drawn)) for name, level in levels.items()]
    metric = view.metric[:1].upper() + view.metric[1:]
    return Figure(
        key="curves-late" if late else "curves",
        title="Loss in the second half" if late else "Loss over training",
        caption=f"{metric}, {view.unit}, against the training step, {part}: mean over the seeds; the band is "
        f"the range over the seeds, not an interval; {view.n(arm for arm in view.arms if arm['arm'] in drawn)}."
        + (" Dotted: n-gram models of the same text, a yardstick for a sound run." if levels else ""),
        label=f"Line chart of {view.metric} over training for {len(drawn)} arms, {part}.",
        legend=legend(view, drawn),
        spec={
            "data": traces,
            "layout": layout(
                420,
                axis("Training step", tickformat="~g"),
                axis(f"{metric}, {view.unit}"),
                annotations=[_named(name, value, last) for name, value in levels.items()],
            ),
        },
        table=Table(
            f"{metric} by step, {view.unit}, {part}", ("Step", *(view.name(arm) for arm in drawn)), tuple(rows)
        ),
    )


def pilot(view: View) -> Figure | None:
    """Loss against learning rate for each arm; the chosen rate is ringed."""
    rows: list[Block] = list(view.document.get("pilot") or ())
    if not any(row["loss"] is not None for row in rows):
        return None
    styles, traces = looks(view), []
    lost_arms = 0
    names = list(dict.fromkeys(row["arm"] for row in rows))
    for arm in names:
        mine = sorted((row for row in rows if row["arm"] == arm), key=lambda row: float(row["lr"]))
        style, name, label = styles.get(arm, OTHER), view.name(arm), view.label(arm)
        known, lost = ([row for row in mine if (row["loss"] is None) is gone] for gone in (False, True))
        said = [
            hover(
                name,
                f"rate {significant(r['lr'])}",
                f"{view.loss(r['loss'])} {view.unit}",
                "chosen" if r["chosen"] else "",
            )
            for r in known
        ]
        line = points([r["lr"] for r in known], [r["loss"] for r in known], said, label, style, mode="lines+markers")
        line["marker"] |= {
            "size": [15 if r["chosen"] else 8 for r in known],
            "line": {"color": "--ink", "width": [2.5 if r["chosen"] else 0 for r in known]},
        }
        traces.append(line)
        if lost:
            said = [hover(name, f"rate {significant(r['lr'])}", "diverged") for r in lost]
            traces.append(crosses([r["lr"] for r in lost], said, label, style, turn=lost_arms))
            lost_arms += 1
    rates = sorted({row["lr"] for row in rows})
    ticks: dict[str, Any] = {"tickvals": rates, "ticktext": [significant(rate) for rate in rates]}
    counts = sorted({row["n"] for row in rows})
    crossed = (
        " A cross on the upper edge: every run at that rate diverged." if any(r["loss"] is None for r in rows) else ""
    )
    return Figure(
        key="pilot",
        title="Learning-rate pilot",
        caption=f"{view.metric.capitalize()}, {view.unit}, against the learning rate (logarithmic axis), mean of "
        f"short runs on seeds of their own, without interval; n\u00a0=\u00a0{' or '.join(map(str, counts))} for each "
        f"point. Large ringed marks: the rate chosen.{crossed}",
        label=f"Line chart of {view.metric} against the learning rate.",
        legend=legend(view, names),
        spec={
            "data": traces,
            "layout": layout(
                380,
                axis("Learning rate", type="log", **ticks),
                axis(f"{view.metric.capitalize()}, {view.unit}"),
                yaxis2=top_axis(),
            ),
        },
        table=Table(
            f"Pilot runs: {view.metric}, {view.unit}",
            ("Arm", "Learning rate", "Loss", "n", "Diverged", "Chosen"),
            tuple(
                (
                    Cell(view.name(row["arm"])),
                    Cell(significant(row["lr"])),
                    Cell(MISSING, "diverged") if row["loss"] is None else Cell(view.loss(row["loss"])),
                    Cell(str(row["n"])),
                    Cell(str(row["diverged"])),
                    Cell("yes" if row["chosen"] else "no"),
                )
                for row in rows
            ),
        ),
    )


def _finished(trial: Block) -> bool:
    return trial["status"] == "ok" and trial["loss"] is not None


def seeds(view: View) -> Figure | None:
    """Final loss of every run, seed by seed: how runs pair, and which have no loss."""
    trials = [trial for trial in view.document["trials"] if trial["phase"] != "pilot"]
    order = sorted({trial["seed"] for trial in trials})
    place = {seed: index for index, seed in enumerate(order)}
    if not any(_finished(trial) for trial in trials):
        return None
    styles, traces = looks(view), []
    names = list(dict.fromkeys(trial["arm"] for trial in trials))
    lost_arms = 0
    for turn, arm in enumerate(names):
        # Side by side, or equal losses hide each other.
        aside = 0.6 * ((turn + 0.5) / len(names) - 0.5)
        mine = [trial for trial in trials if trial["arm"] == arm]
        style, name, label = styles.get(arm, OTHER), view.name(arm), view.label(arm)
        known, lost = ([t for t in mine if _finished(t) is fine] for fine in (True, False))
        said = [hover(name, f"seed {t['seed']}", f"{view.loss(t['loss'])} {view.unit}") for t in known]
        traces.append(points([place[t["seed"]] + aside for t in known], [t["loss"] for t in known], said, label, style))
        if lost:
            said = [hover(name, f"seed {t['seed']}", clean(t["status"])) for t in lost]
            traces.append(crosses([place[t["seed"]] + aside for t in lost], said, label, style, turn=lost_arms))
            lost_arms += 1
    gone = sum(not _finished(trial) for trial in trials)
    x = axis(
        "Seed", tickvals=list(range(len(order))), ticktext=[str(seed) for seed in order], range=[-0.5, len(order) - 0.5]
    )
    return Figure(
        key="seeds",
        title="Final loss of every run",
        caption=f"Final {view.metric} of single runs, {view.unit}, by seed: one mark a run, so without interval; "
        f"n\u00a0=\u00a0{len(trials)} runs in all, pilot left out."
        + (f" Crosses on the upper edge: {gone} that diverged or failed." if gone else ""),
        label=f"Dot chart of the final {view.metric} of {len(trials)} runs by seed.",
        legend=legend(view, names, line=False),
        spec={
            "data": traces,
            "layout": layout(380, x, axis(f"{view.metric.capitalize()}, {view.unit}"), yaxis2=top_axis()),
        },
        table=Table(
            f"Final {view.metric} by seed, {view.unit}",
            ("Seed", *(view.name(name) for name in names)),
            tuple((Cell(str(seed)), *(_final(view, trials, name, seed) for name in names)) for seed in order),
        ),
    )


def _final(view: View, trials: list[Block], arm: str, seed: int) -> Cell:
    found = [trial for trial in trials if trial["arm"] == arm and trial["seed"] == seed]
    if not found:
        return Cell("not run")
    return Cell(view.loss(found[0]["loss"]) if _finished(found[0]) else clean(found[0]["status"]))
