"""Live progress of a comparison on standard error: bars on a terminal, one line an event elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from softgate.errors import clean
from softgate.lab.spec import Plan, StudySpec, TrialSpec
from softgate.lab.store import Trial
from softgate.lab.study import Watch


@contextmanager
def progress() -> Iterator[Watch]:
    """A watch that fits standard error: live bars on a terminal, lines otherwise."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield Lines(Console(file=sys.stderr, highlight=False, soft_wrap=True, no_color=True))
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield Bars(console, bars)


def plan_lines(study: StudySpec, plan: Plan, stored: bool) -> list[str]:
    """The plan in words: what will run, how long, and what it can see."""
    seeds = f"{plan.seeds} seeds x {plan.steps} steps for {', '.join(clean(a, 30) for a in study.arms)} and one A/A arm"
    lines = [f"plan{' (stored with the study)' if stored else ''}: {seeds}"]
    if plan.pilot_seeds:
        rates = ", ".join(f"{lr:g}" for lr in plan.learning_rates)
        lines.append(f"pilot: learning rates {rates}, {plan.pilot_seeds} seed(s) x {plan.pilot_steps} steps an arm")
    if plan.predicted_seconds is not None:
        lines.append(f"expected time: {_time(plan.predicted_seconds)} on {plan.workers} worker(s)")
    effect = _effect(plan.smallest_detectable, plan.smallest_detectable_sd, study)
    lines.append(f"smallest detectable effect (80 % power): {effect}")
    if plan.larger is not None:
        larger = plan.larger
        seeds_text = f"{larger['seeds']:.0f} seeds x {larger['steps']:.0f} steps"
        effect = _effect(larger["smallest_detectable"], larger["smallest_detectable_sd"], study)
        lines.append(f"a budget of {_time(larger['budget_seconds'])} would run {seeds_text} and detect {effect}")
    return lines


def _effect(value: float | None, multiple: float | None, study: StudySpec) -> str:
    if value is None:
        return f"{multiple:.2f} standard deviations of a paired difference (this trial's spread is not known yet)"
    return f"{value:.4f} {study.unit} (a paired difference is assumed to spread by {study.sd:g})"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "an unknown time"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"


def _name(spec: TrialSpec) -> str:
    rate = "" if spec.lr is None else f" lr {spec.lr:g}"
    return f"{clean(spec.arm, 30)} {spec.phase}{rate} seed {spec.seed}"


def _outcome(trial: Trial) -> str:
    loss = trial.result["loss"]
    return f"loss {loss:.4f}" if loss is not None else f"{trial.status}: {clean(trial.result['reason'], 120)}"


class Lines(Watch):
    """One line an event, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False)

    def calibrating(self, study: StudySpec, workers: int) -> None:
        self._print(f"measuring speed on {workers} worker(s)")

    def planned(self, study: StudySpec, plan: Plan, stored: bool) -> None:
        for line in plan_lines(study, plan, stored):
            self._print(line)

    def finished(self, worker: int, trial: Trial, done: int, total: int, seconds_left: float | None) -> None:
        left = "" if seconds_left is None else f", {_time(seconds_left)} left"
        self._print(f"[{done}/{total}] {_name(trial.spec)}: {_outcome(trial)} ({trial.seconds:.1f}s{left})")

    def retried(self, spec: TrialSpec, error: str) -> None:
        self._print(f"{_name(spec)}: {clean(error, 120)}; run again")


class Bars(Lines):
    """A bar for the study and one for each worker, with current losses and the time left."""

    def __init__(self, console: Console, bars: Progress) -> None:
        super().__init__(console)
        self._bars = bars
        self._whole: TaskID | None = None
        self._workers: dict[int, TaskID] = {}

    def planned(self, study: StudySpec, plan: Plan, stored: bool) -> None:
        super().planned(study, plan, stored)
        self._whole = self._bars.add_task("study", total=None, note="")

    def running(self, worker: int, spec: TrialSpec) -> None:
        if worker not in self._workers:
            self._workers[worker] = self._bars.add_task("", note="")
        self._bars.reset(
            self._workers[worker], total=spec.steps, description=f"worker {worker}  {_name(spec)}", note=""
        )

    def progress(self, worker: int, spec: TrialSpec, step: int, loss: float) -> None:
        self._bars.update(self._workers[worker], completed=step, note=f"step {step}/{spec.steps}, loss {loss:.4f}")

    def finished(self, worker: int, trial: Trial, done: int, total: int, seconds_left: float | None) -> None:
        assert self._whole is not None
        left = "" if seconds_left is None else f", {_time(seconds_left)} left"
        self._bars.update(
            self._whole, completed=done, total=total, note=f"{done}/{total} trials{left}; last: {_outcome(trial)}"
        )
        if trial.status != "ok":
            self._print(f"{_name(trial.spec)}: {_outcome(trial)}")
