"""A comparison from its settings to its document: prepare, plan, run what is missing, summarise."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from softgate.errors import StudyError, TrialError, clean
from softgate.lab import design, execute, plan, summary, words
from softgate.lab.environment import environment
from softgate.lab.execute import Event, Workers
from softgate.lab.settings import Request, prepare
from softgate.lab.spec import Plan, StudySpec, TrialSpec
from softgate.lab.store import Store, Trial

# A trial whose worker dies this often is recorded as failed: the second time may be chance, the third is the trial.
DEATHS = 3


class Watch:
    """What a run tells while it goes; every method does nothing here. The command line shows it."""

    def calibrating(self, study: StudySpec, workers: int) -> None:
        """Speed is being measured."""

    def planned(self, study: StudySpec, plan: Plan, stored: bool) -> None:
        """The plan is made, or read from the study (stored); nothing has been trained in this session."""

    def progress(self, worker: int, spec: TrialSpec, step: int, loss: float) -> None:
        """A trial has reached a step with a held-out loss."""

    def running(self, worker: int, spec: TrialSpec) -> None:
        """A trial was given to a worker."""

    def finished(self, worker: int, trial: Trial, done: int, total: int, seconds_left: float | None) -> None:
        """A trial was stored."""

    def retried(self, spec: TrialSpec, error: str) -> None:
        """A worker died; its trial is run again."""


class Study:
    """A finished (or partial) comparison: its document and where it lies.

    `document` is the dictionary that ``--json`` writes (schema "softgate.compare/1").
    """

    def __init__(self, document: dict[str, Any], folder: Path) -> None:
        self.document = document
        self.folder = folder

    def table(self) -> str:
        """The arms as a text table: loss, paired difference with interval, verdict."""
        return words.table(self.document)

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        return self.document

    def to_html(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the report, by default to report.html in the study's folder; returns its path."""
        from softgate.lab import report

        target = Path(path) if path is not None else self.folder / "report.html"
        report.write(self.document, target)
        return target

    def to_frame(self) -> Any:
        """Every trial as a row of a pandas DataFrame. Raises ImportError, saying what to install, without pandas."""
        try:
            import pandas  # type: ignore[import-untyped]  # not a dependency: whoever wants a frame has it
        except ImportError as error:
            raise ImportError("Study.to_frame needs pandas: pip install pandas") from error
        rows = [{k: v for k, v in trial.items() if k != "curve"} for trial in self.document["trials"]]
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        return "\n".join([*self.document["headline"], "", self.table()])

    def _repr_html_(self) -> str:
        return words.table_html(self.document)


def compare(
    arms: Sequence[str] = ("relu", "gelu", "swiglu"),
    *,
    text: str = "stdlib",
    budget: str | float | None = None,
    study: str | os.PathLike[str] | None = None,
    preset: str | None = None,
    baseline: str | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    lr: float | Mapping[str, float] | None = None,
    workers: int | None = None,
    margin: float = 0.01,
    model: Mapping[str, Any] | None = None,
    trial: Any = None,
    watch: Watch | None = None,
) -> Study:
    """Train the same model with each activation under equal conditions; say, with an interval, what differs.

    arms: names of records, the first one is the baseline unless `baseline` names another. text: "stdlib", "topics",
    "shakespeare", "torch", or a path. budget: "4m", "90s", seconds, default "3m". `steps`, `seeds` and `lr` (one rate,
    or one an arm) override the plan. model: fields of ModelSpec that differ from the preset's. trial: your own
    ``function(arm, seed, steps, report) -> {"loss": ...}``, or its name as "module:function"; arms may then be any
    strings. preset: "tiny", "small" or "base"; by default tiny, from a budget of 10 minutes small. margin: the
    difference below which two arms count as equivalent, in the unit of the loss (nats/byte).

    A killed call continues where it was when it is repeated with the same settings: `study` names the folder, by
    default one derived from the settings. Raises BadInput, UnknownActivation, StudyError or TrialError.

    >>> from softgate.lab import compare
    >>> import tempfile
    >>> def parabola(arm, seed, steps, report):
    ...     return {"loss": float(len(arm)) + 0.01 * (seed % 3)}
    """
    request = Request(
        arms=tuple(arms), text=text, budget=budget, folder=study, preset=preset, baseline=baseline, steps=steps,
        seeds=seeds, lr=lr, workers=workers, margin=margin, model=dict(model or {}), trial=trial,
    )  # fmt: skip
    return run(request, command="softgate.lab.compare(...)", watch=watch or Watch())


def dry_run(request: Request, watch: Watch) -> Plan:
    """Measure speed, make the plan and tell it; write nothing that lasts."""
    import tempfile

    job = prepare(request)
    with tempfile.TemporaryDirectory() as folder, Workers(job.workers, job.setup(Path(folder))) as pool:
        made = _make_plan(job.study, job.workers, pool, watch)
    watch.planned(job.study, made, stored=False)
    return made


def run(request: Request, *, command: str, watch: Watch) -> Study:
    """Run what the study still needs and return it; see `compare`."""
    job = prepare(request)
    with Store(job.folder) as store:
        store.claim(job.study)
        if store.noted("data") is None and job.corpus is not None:
            from softgate.lab.ngrams import baselines

            store.note("data", {**job.corpus.to_dict(), "ngrams": baselines(job.corpus)})
        if store.noted("command") is None:
            store.note("command", command)
            store.note("created", datetime.now(UTC).isoformat(timespec="seconds"))
        _complete(store, job.study, job.workers, job.setup(store.folder), watch)
        return Study(document(store), store.folder)


def load(folder: str | os.PathLike[str]) -> Study:
    """Read a study, finished or not, without running anything. Raises StudyError when there is none."""
    with Store(Path(folder), readonly=True) as store:
        return Study(document(store), store.folder)


def document(store: Store) -> dict[str, Any]:
    """The comparison document of what the store holds."""
    study, made = store.spec(), store.plan()
    if study is None or made is None:
        raise StudyError(f"the study in '{clean(store.folder)}' has no plan yet; run its compare command first")
    return summary.document(
        study, made, store.trials(), store.sessions(),
        data=store.noted("data"), command=store.noted("command"), created=store.noted("created"),
    )  # fmt: skip


def _make_plan(study: StudySpec, workers: int, pool: Workers, watch: Watch) -> Plan:
    watch.calibrating(study, workers)
    # Steps and rate do not change the speed; 16 steps stand in for all.
    blank = plan.blank(study, workers)
    specs = [design.trial(study, blank, arm, "final", 0, 1e-4) for arm in study.arms]
    times = dict(zip(study.arms, execute.calibrate(pool, workers, specs), strict=True))
    return plan.make(study, workers, times)


def _complete(store: Store, study: StudySpec, workers: int, setup: dict[str, Any], watch: Watch) -> None:
    made = store.plan()
    stored = made is not None
    losses = {t.spec.key: t.result["loss"] for t in store.trials() if t.status != "failed"}
    if made is not None and not design.needed(study, made, losses):
        watch.planned(study, made, stored=True)
        return
    session = store.begin_session(workers)
    with Workers(workers, setup) as pool:
        if made is None:
            made = (
                _make_plan(study, workers, pool, watch) if study.budget is not None else plan.make(study, workers, {})
            )
            store.set_plan(made)
            idle = set(range(workers)) if study.budget is not None else set()
        else:
            idle = set()
        watch.planned(study, made, stored=stored)
        _Run(store, study, made, pool, session, losses, watch).loop(idle)


class _Run:
    """The loop over events: feed idle workers, store what they finish, replace the dead."""

    def __init__(
        self, store: Store, study: StudySpec, made: Plan, pool: Workers, session: int,
        losses: dict[str, float | None], watch: Watch,
    ) -> None:  # fmt: skip
        self.store, self.study, self.plan, self.pool, self.session = store, study, made, pool, session
        self.losses, self.watch = losses, watch
        self.environment = environment(study.text)
        self.running: dict[int, tuple[TrialSpec, float]] = {}
        self.deaths: Counter[str] = Counter()
        self.pace = [0.0, 0.0]  # seconds taken, seconds predicted, of the trials of this session

    def loop(self, idle: set[int]) -> None:
        self._feed(idle)
        if not self.running and not self._ready():
            return
        for event in self.pool.events():
            if event.kind == "progress":
                self.watch.progress(
                    event.worker, self.running[event.worker][0], event.message["step"], event.message["loss"]
                )
                continue
            self._handle(event, idle)
            self._feed(idle)
            if not self.running and not self._ready():
                return

    def _handle(self, event: Event, idle: set[int]) -> None:
        worker = event.worker
        if event.kind == "ready":
            idle.add(worker)
        elif worker not in self.running:
            # It could not load the text or the user's module, or died before its first trial.
            raise TrialError(f"a worker could not start: {event.message['error']}")
        elif event.kind == "died":
            spec, _ = self.running.pop(worker)
            self.deaths[spec.key] += 1
            self.store.count_retry(self.session)
            self.pool.replace(worker)
            if self.deaths[spec.key] >= DEATHS:
                self._finish(worker, spec, _failure(event.message["error"]))
            else:
                self.watch.retried(spec, event.message["error"])
        else:
            spec, begin = self.running.pop(worker)
            idle.add(worker)
            if event.kind == "failed":
                result = _failure(event.message["error"], time.monotonic() - begin, event.message["traceback"])
            else:
                result = event.message["result"]
            self._finish(worker, spec, result)

    def _finish(self, worker: int, spec: TrialSpec, result: dict[str, Any]) -> None:
        trial = Trial(
            spec=spec, status=result["status"], result=result, environment=self.environment,
            session=self.session, seconds=result["seconds"], finished=time.time(),
        )  # fmt: skip
        self.store.add(trial)
        self.losses[spec.key] = result["loss"]
        self.pace[0] += result["seconds"]
        self.pace[1] += self._predicted(spec)
        waiting = design.needed(self.study, self.plan, self.losses)
        total = max(design.expected_total(self.study, self.plan, self.losses), len(self.losses) + len(waiting))
        self.watch.finished(worker, trial, len(self.losses), total, self._seconds_left(waiting, total))

    def _seconds_left(self, waiting: list[TrialSpec], total: int) -> float | None:
        if not self.pace[1]:
            return None
        # Final runs that wait for a pilot are not in `waiting`: count them as average final runs.
        hidden = max(total - len(self.losses) - len(waiting), 0)
        last = design.trial(self.study, self.plan, self.study.baseline, "final", 0, None)
        work = sum(map(self._predicted, waiting)) + hidden * self._predicted(last)
        return work * self.pace[0] / self.pace[1] / self.plan.workers

    def _ready(self) -> list[TrialSpec]:
        """What can run now, pilots first, then the longest first; about equal lengths stay seed by seed.

        Lengths within a factor of 1.5 count as equal, so that the arms of one seed run side by side and a slow hour
        of the machine slows them all.
        """
        busy = {spec.key for spec, _ in self.running.values()}
        specs = [s for s in design.needed(self.study, self.plan, self.losses) if s.key not in busy]
        return sorted(specs, key=lambda s: (s.phase != "pilot", -round(math.log(self._predicted(s), 1.5))))

    def _predicted(self, spec: TrialSpec) -> float:
        step = self.plan.seconds_per_step.get(spec.arm, 1.0)
        return max(spec.steps * step + self.plan.overhead_seconds.get(spec.arm, 0.0), 1e-3)

    def _feed(self, idle: set[int]) -> None:
        for spec in self._ready()[: len(idle)]:
            worker = min(idle)
            idle.discard(worker)
            self.running[worker] = (spec, time.monotonic())
            self.pool.send(worker, "trial", spec)
            self.watch.running(worker, spec)


def _failure(error: str, seconds: float = 0.0, trace: str | None = None) -> dict[str, Any]:
    return {"status": "failed", "reason": error, "traceback": trace, "loss": None, "seconds": seconds}
