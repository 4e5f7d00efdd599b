"""Tables of the report: a comparison document in, frozen plain-text cells out.

No statistics here: every number shown stands in the document. Cells hold plain text; the template escapes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from softgate.errors import clean
from softgate.lab.report.words import (
    MISSING,
    Format,
    chance,
    duration,
    fixed,
    places,
    prose,
    share,
    signed,
    significant,
    size,
    span,
)

_SHORT = 18

VERDICTS = {
    "baseline": "baseline",
    "better": "better",
    "worse": "worse",
    "equivalent": "equivalent",
    "undetected": "no detectable difference",
    "undecided": "undecided",
}

Block = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One table cell: its text and, under it, a note (the reason why a number is missing, an interval)."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """The first cell of each row is its header. `left` numbers the columns which hold words."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left: frozenset[int] = frozenset()
    kind: Literal["table"] = "table"


def missing(source: Block | None, key: str = "") -> Cell:
    """`not available`, with the reason which the document gives."""
    if source is None:
        return Cell(MISSING, "not measured")
    return Cell(MISSING, clean(source.get(f"{key}_reason") or source.get("reason") or "", 240))


def cell(source: Block | None, key: str, form: Format, note: str = "") -> Cell:
    value = None if source is None else source.get(key)
    return missing(source, key) if value is None else Cell(form(value), note)


def lookup(source: Block | None, *keys: str) -> Any:
    """The value under nested keys; None where a block on the way is null."""
    for key in keys:
        source = None if source is None else source.get(key)
    return source


def estimate(source: Block | None, key: str) -> Cell:
    """A block {estimate, low, high} as one cell."""
    block = None if source is None else source.get(key)
    if block is None or block.get("estimate") is None:
        return missing(block if block is not None else source, key)
    digits = max(3, places(block["high"] - block["low"])) if block.get("low") is not None else 3
    low_high = span((block["low"], block["high"]), lambda x: fixed(x, digits)) if block.get("low") is not None else ""
    return Cell(fixed(block["estimate"], digits), low_high)


@dataclass(frozen=True)
class View:
    """A document with what every table and figure of it shares: names fit to show, unit, digits, words about n."""

    document: Block
    names: Mapping[str, str]
    labels: Mapping[str, str]
    digits: int

    @property
    def arms(self) -> list[Block]:
        """In the order of the document, the A/A arm last."""
        return sorted(self.document["arms"], key=lambda arm: bool(arm["role"] == "aa"))

    @property
    def others(self) -> list[Block]:
        """All arms but the baseline."""
        return [arm for arm in self.arms if arm["role"] != "baseline"]

    @property
    def baseline(self) -> str:
        return self.name(self.document["baseline"])

    @property
    def metric(self) -> str:
        return clean(self.document["metric"]["name"])

    @property
    def unit(self) -> str:
        return clean(self.document["metric"]["unit"])

    @property
    def level(self) -> str:
        return share(1.0 - self.document["alpha"])

    def name(self, arm: str) -> str:
        return self.names[arm]

    def label(self, arm: str) -> str:
        return self.labels[arm]

    def n(self, arms: Iterable[Block]) -> str:
        """`n = 8` where all arms have as many, else each arm with its own."""
        counts = {self.label(arm["arm"]): arm["n"] for arm in arms}
        if len(set(counts.values())) == 1:
            return f"n\u00a0=\u00a0{next(iter(counts.values()))} for each"
        return "n: " + ", ".join(f"{name} {n}" for name, n in counts.items())

    def difference(self, value: float) -> str:
        return signed(value, self.digits)

    def loss(self, value: float) -> str:
        return fixed(value, self.digits)


def view(document: Block) -> View:
    """Names made safe to show (control characters out, cut), and short ones, all different, for axes and legends."""
    raw: dict[str, None] = dict.fromkeys(
        [
            document["baseline"],
            *(row["arm"] for part in ("arms", "pilot", "trials") for row in document.get(part) or ()),
        ]
    )
    names = {name: clean(name) or "(no name)" for name in raw}
    labels: dict[str, str] = {}
    for name, shown in names.items():
        short = base = shown if len(shown) <= _SHORT else f"{shown[: _SHORT - 1]}…"
        count = 1
        while short in labels.values():
            count += 1
            short = f"{base} ({count})"
        labels[name] = short
    widths = [arm["interval"] for arm in document["arms"] if arm.get("interval") and None not in arm["interval"]]
    # At least four, as in the words of the document.
    digits = max([4, *(places(high - low) for low, high in widths)])
    return View(document=document, names=names, labels=labels, digits=digits)


def arm_rows(view: View, arms: Iterable[Block], *columns: Callable[[Block], Cell]) -> tuple[tuple[Cell, ...], ...]:
    """One row an arm: its name, then one cell a column. A reason is told once a row."""

    def row(arm: Block) -> tuple[Cell, ...]:
        told: set[str] = set()
        cells = [Cell(view.name(arm["arm"]))]
        for made in (column(arm) for column in columns):
            again = made.text == MISSING and made.note in told
            told.add(made.note)
            cells.append(Cell(MISSING) if again else made)
        return tuple(cells)

    return tuple(row(arm) for arm in arms)


def difference_cell(view: View, source: Block | None, role: str = "arm") -> Cell:
    """A difference with its interval under it; the baseline has none."""
    if role == "baseline":
        return Cell("reference")
    if source is None or source.get("difference") is None:
        return missing(source, "difference")
    pair = source.get("interval")
    return Cell(view.difference(source["difference"]), span(pair, view.difference) if pair else "")


def verdicts(view: View) -> Table:
    """One row an arm: the verdict in words, difference, perplexity ratio, n."""

    def said(arm: Block) -> Cell:
        words = prose(clean(arm.get("words") or VERDICTS.get(arm["verdict"], arm["verdict"]), 400))
        notes = ["the baseline again, in another data order"] if arm["role"] == "aa" else []
        notes += ["best learning rate lies on the edge of the grid"] if arm.get("lr_on_edge") else []
        notes += [prose(clean(arm["reason"], 400))] if arm.get("reason") else []
        return Cell(words, "; ".join(notes))

    def runs(arm: Block) -> Cell:
        lost = [f"{arm[key]}\u00a0{key}" for key in ("diverged", "failed") if arm.get(key)]
        return Cell(f"{arm['n']} of {arm['planned']}", ", ".join(lost))

    columns: list[tuple[str, Callable[[Block], Cell]]] = [
        ("Verdict", said),
        (f"Difference, {view.unit}", lambda arm: difference_cell(view, arm, arm["role"])),
    ]
    if any(arm.get("perplexity_ratio") for arm in view.arms):
        ratio: Callable[[Block], Cell] = lambda arm: (  # noqa: E731
            Cell("reference") if arm["role"] == "baseline" else estimate(arm, "perplexity_ratio")
        )
        columns.append(("Perplexity ratio", ratio))
    columns += [
        (f"{view.metric.capitalize()}, {view.unit}", lambda arm: cell(arm, "loss", view.loss)),
        ("Runs used", runs),
    ]
    return Table(
        f"Verdict on each arm against {view.baseline}; {view.level} intervals under the estimates, negative is better",
        ("Arm", *(title for title, _ in columns)),
        arm_rows(view, view.arms, *(column for _, column in columns)),
        frozenset({0, 1}),
    )


def details(view: View) -> Table:
    """The statistics behind the verdicts."""
    return Table(
        f"Statistics of the paired differences from {view.baseline}, {view.unit}",
        (
            "Arm",
            "Mean",
            "t interval",
            "Bootstrap interval",
            "SD",
            "p",
            "p, Holm",
            "p, equivalence",
            "Smallest detectable",
        ),
        arm_rows(
            view,
            view.others,
            lambda arm: cell(arm, "difference", view.difference),
            lambda arm: cell(arm, "interval", lambda pair: span(pair, view.difference)),
            lambda arm: cell(arm, "bootstrap", lambda pair: span(pair, view.difference)),
            lambda arm: cell(arm, "sd", significant),
            lambda arm: cell(arm, "p", chance),
            lambda arm: Cell("not tested") if arm["role"] == "aa" else cell(arm, "p_holm", chance),
            lambda arm: cell(arm, "p_equivalence", chance),
            lambda arm: cell(arm, "smallest_detectable", significant),
        ),
    )


def metrics(view: View) -> Table:
    """The other numbers that a user's own trial returned."""
    names = list(dict.fromkeys(name for arm in view.arms for name in arm.get("metrics") or {}))

    def other(name: str) -> Callable[[Block], Cell]:
        def at(arm: Block) -> Cell:
            found = lookup(arm, "metrics", name)
            if found is None or found["mean"] is None:
                return missing(found)
            change = found["difference"]
            apart = "" if change is None else f", {'+' if change > 0 else ''}{significant(change)} from the baseline"
            return Cell(significant(found["mean"], 4), f"n = {found['n']}{apart}")

        return at

    return Table(
        f"Other numbers the trial returned: mean, and mean paired difference from {view.baseline}, without interval",
        ("Arm", *(clean(name) for name in names)),
        arm_rows(view, view.arms, *(other(name) for name in names)),
    )


def rates(view: View) -> Table:
    """The learning rate of each arm, and the comparison at one common rate."""

    def common(key: str, form: Format) -> Callable[[Block], Cell]:
        return lambda arm: cell(arm.get("common_lr"), key, form)

    def chosen(arm: Block) -> Cell:
        return cell(arm, "lr", significant, "on the edge of the grid" if arm.get("lr_on_edge") else "")

    return Table(
        f"Learning rate chosen for each arm, and {view.metric} ({view.unit}) when all arms use one common rate",
        ("Arm", "Chosen rate", "Common rate", "Loss at it", "Difference at it", "n"),
        arm_rows(
            view,
            [arm for arm in view.arms if arm["role"] != "aa"],
            chosen,
            common("lr", significant),
            common("loss", view.loss),
            lambda arm: difference_cell(view, arm.get("common_lr"), arm["role"]),
            common("n", significant),
        ),
    )


def targets(view: View) -> Table:
    """Steps and seconds to the common target; the ratios are drawn."""

    def reach(key: str, form: Format) -> Callable[[Block], Cell]:
        return lambda arm: cell(arm.get("to_target"), key, form)

    return Table(
        f"Cost of reaching a common {view.metric}",
        ("Arm", f"Target, {view.unit}", "Steps", "Time", "Runs that reached it", "Training time of a run"),
        arm_rows(
            view,
            view.arms,
            reach("target", view.loss),
            reach("steps", lambda x: fixed(x, 0)),
            reach("seconds", duration),
            reach("n", significant),
            lambda arm: cell(arm.get("speed"), "train_seconds", duration),
        ),
    )


def spikes(view: View) -> Table:
    """Loss spikes and what the dead-unit counts rest on."""

    def health(key: str, form: Format) -> Callable[[Block], Cell]:
        return lambda arm: cell(arm.get("health"), key, form)

    return Table(
        "Loss spikes, and how many tokens the unit counts rest on: a unit that never fired in them "
        "fires, with 95 % confidence, less often than the upper bound",
        ("Arm", "Spikes per 1,000 steps", "Tokens", "Upper bound of the firing rate"),
        arm_rows(
            view,
            view.arms,
            health("spikes_per_1000", significant),
            health("tokens", significant),
            health("firing_upper", lambda x: significant(x, 2)),
        ),
    )


def runs(view: View) -> Table:
    """Every run of the study, whatever became of it."""

    def state(trial: Block) -> Cell:
        return Cell(clean(trial["status"]), clean(trial.get("error") or "", 240))

    forms: tuple[tuple[str, str, Format], ...] = (
        ("Learning rate", "lr", significant),
        ("Steps", "steps", significant),
        (f"Loss, {view.unit}", "loss", view.loss),
        ("Time", "seconds", duration),
        ("Tokens/s", "tokens_per_second", lambda x: fixed(x, 0)),
        ("Peak memory", "peak_memory_bytes", size),
        ("Parameters", "parameters", significant),
        ("Key", "key", lambda x: clean(x)[:12]),
    )

    place = {arm["arm"]: index for index, arm in enumerate(view.arms)}

    def order(trial: Block) -> tuple[Any, ...]:
        # Runs end in any order: here by arm, final runs before those of the pilot.
        return (place.get(trial["arm"], len(place)), trial["phase"] == "pilot", trial["lr"] or 0.0, trial["seed"])

    def short(trial: Block, key: str, form: Format) -> Cell:
        # The reason stands once, beside the status.
        return Cell(MISSING if trial.get(key) is None else form(trial[key]))

    return Table(
        f"All {len(view.document['trials'])} runs, those that diverged or failed included",
        ("Arm", "Phase", "Seed", "Status", *(title for title, _, _ in forms)),
        tuple(
            (
                Cell(view.name(trial["arm"])),
                Cell(clean(trial["phase"])),
                Cell(str(trial["seed"])),
                state(trial),
                *(short(trial, key, form) for _, key, form in forms),
            )
            for trial in sorted(view.document["trials"], key=order)
        ),
        frozenset({0, 1, 3}),
    )
