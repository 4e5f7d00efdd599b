"""What the runs of one arm say beside those of the baseline: pairs, curves, targets, times, health."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softgate.lab import design, stats
from softgate.lab.spec import Phase, Plan, StudySpec
from softgate.lab.store import Trial


def label(arm: str, phase: str) -> str:
    """The name under which an arm is shown."""
    return f"{arm} (A/A)" if phase == "aa" else arm


@dataclass(frozen=True)
class Runs:
    """The final runs of one arm, by seed (the seed of the pair, also for the A/A arm)."""

    arm: str
    phase: Phase
    ok: Mapping[int, Mapping[str, Any]]
    diverged: int
    failed: int

    @staticmethod
    def of(study: StudySpec, plan: Plan, lr: float | None, arm: str, phase: Phase, trials: Sequence[Trial]) -> Runs:
        """The runs of an arm among the trials of its study."""
        seeds = {design.trial(study, plan, arm, phase, seed, lr).key: seed for seed in range(plan.seeds)}
        mine = [(seeds[t.spec.key], t) for t in trials if t.spec.key in seeds]
        return Runs(
            arm, phase,
            ok={seed: t.result for seed, t in sorted(mine, key=lambda pair: pair[0]) if t.status == "ok"},
            diverged=sum(t.status == "diverged" for _, t in mine),
            failed=sum(t.status == "failed" for _, t in mine),
        )  # fmt: skip

    @property
    def label(self) -> str:
        return label(self.arm, self.phase)

    @property
    def losses(self) -> dict[int, float]:
        return {seed: run["loss"] for seed, run in self.ok.items()}

    @property
    def mean_loss(self) -> float | None:
        return statistics.fmean(self.losses.values()) if self.ok else None

    def first(self, name: str) -> Any:
        """A value that is the same in every run."""
        return next((run.get(name) for run in self.ok.values()), None)

    def values(self, name: str) -> list[float]:
        """A number of every run that has it."""
        return [run[name] for run in self.ok.values() if run.get(name) is not None]


Finals = Mapping[tuple[str, Phase], Runs]


def differences(runs: Runs, base: Runs) -> np.ndarray:
    """Arm minus baseline, seed by seed, over the seeds in which both ended well; [n] float64."""
    return np.array([runs.losses[s] - base.losses[s] for s in runs.losses if s in base.losses])


def common_rate(
    study: StudySpec, plan: Plan, arm: str, pilots: Mapping[str, design.Pilot], losses: design.Losses
) -> dict[str, Any] | None:
    """Pilot loss at one rate for all arms: the rate that every arm tried with the lowest mean over arms."""
    rows = {a: {lr: x for lr, x in zip(p.rates, p.losses, strict=False) if x is not None} for a, p in pilots.items()}
    shared = set.intersection(*(set(row) for row in rows.values()))
    if not shared:
        return None
    rate = min(shared, key=lambda lr: (sum(row[lr] for row in rows.values()), lr))
    return {
        "lr": rate, "loss": rows[arm][rate], "difference": rows[arm][rate] - rows[study.baseline][rate],
        "n": plan.pilot_seeds, "steps": plan.pilot_steps,
    }  # fmt: skip


def equal_time(
    study: StudySpec, plan: Plan, finals: Finals, runs: Runs, losses: design.Losses, pilots: Mapping[str, design.Pilot]
) -> dict[str, Any] | None:
    """Loss if every arm had trained for the time of the fastest one.

    An arm that needs r times as long a step gets steps / r. Its loss there lies between its runs of pilot_steps and of
    steps, which both completed their schedule: it is interpolated in the logarithm of the steps. Without a pilot (or
    when the pilot's rate has no such run) there is nothing honest to interpolate between.
    """
    pilot = pilots[runs.arm]
    if not runs.ok or not pilot.losses or pilot.chosen is None or plan.pilot_steps >= plan.steps:
        return None
    times = {arm: _step_seconds(r) for (arm, phase), r in finals.items() if phase == "final" and r.ok}
    fastest = min(times.values())
    shift = {}
    for arm, seconds in times.items():
        p = pilots[arm]
        short, full = (
            p.losses[p.rates.index(p.chosen)] if p.losses and p.chosen else None,
            finals[(arm, "final")].mean_loss,
        )
        if short is None or full is None:
            return None
        slope = (full - short) / math.log(plan.steps / plan.pilot_steps)  # loss a factor e of steps
        shift[arm] = -slope * math.log(seconds / fastest)
    mean = runs.mean_loss
    assert mean is not None
    base = finals[(study.baseline, "final")]
    pairs = differences(runs, base) + shift[runs.arm] - shift.get(study.baseline, 0.0)
    found = (
        stats.paired(pairs, margin=study.margin, alpha=study.alpha) if len(pairs) >= 2 and runs is not base else None
    )
    return {
        "loss": mean + shift[runs.arm],
        "difference": None if found is None else found.mean,
        "interval": None if found is None else list(found.interval),
        "method": f"interpolated in log steps between completed runs of {plan.pilot_steps} and {plan.steps} steps",
    }


def _step_seconds(runs: Runs) -> float:
    return statistics.median(1.0 / rate for rate in runs.values("tokens_per_second"))


def to_target(finals: Finals, runs: Runs) -> dict[str, Any] | None:
    """Steps and seconds to a loss that every run reached: the highest of all runs' lowest curve points."""
    curves = [run["curve"] for r in finals.values() for run in r.ok.values()]
    if not runs.ok or not all(len(c["loss"]) > 1 for c in curves):
        return None
    target = max(min(curve["loss"]) for curve in curves)
    base = next(r for (_, phase), r in finals.items() if phase == "aa")
    base = finals[(base.arm, "final")]
    mine, theirs = ({seed: _reach(run["curve"], target) for seed, run in r.ok.items()} for r in (runs, base))
    shared = [seed for seed in mine if seed in theirs]
    return {
        "target": target,
        "steps": statistics.fmean(step for step, _ in mine.values()),
        "seconds": statistics.fmean(seconds for _, seconds in mine.values()),
        "steps_ratio": _ratio([(mine[s][0], theirs[s][0]) for s in shared]) if runs is not base else None,
        "seconds_ratio": _ratio([(mine[s][1], theirs[s][1]) for s in shared]) if runs is not base else None,
        "n": len(mine),
    }


def _reach(curve: Mapping[str, list[float]], target: float) -> tuple[float, float]:
    """Where a curve first comes down to the target: step and seconds, linear between its points."""
    loss = curve["loss"]
    i = next(i for i, value in enumerate(loss) if value <= target)
    if i == 0:
        return float(curve["step"][0]), curve["seconds"][0]
    part = (loss[i - 1] - target) / (loss[i - 1] - loss[i])
    step, seconds = (curve[k][i - 1] + part * (curve[k][i] - curve[k][i - 1]) for k in ("step", "seconds"))
    return step, seconds


def _ratio(pairs: list[tuple[float, float]]) -> dict[str, float] | None:
    if len(pairs) < 2 or any(x <= 0 or y <= 0 for x, y in pairs):
        return None
    return dict(zip(("estimate", "low", "high"), stats.ratio(np.array([x / y for x, y in pairs])), strict=True))


def speed(runs: Runs, base: Runs) -> dict[str, Any]:
    """Medians over runs; `time_ratio` is time a step beside the baseline's of the same seed."""
    rates = {s: r["tokens_per_second"] for s, r in runs.ok.items() if r.get("tokens_per_second")}
    other = {s: r["tokens_per_second"] for s, r in base.ok.items() if r.get("tokens_per_second")}
    memory, saved = runs.values("peak_memory_bytes"), runs.values("saved_bytes_per_token")
    seconds = runs.values("train_seconds")
    return {
        "tokens_per_second": statistics.median(rates.values()) if rates else None,
        "time_ratio": None if runs is base else _ratio([(other[s], rates[s]) for s in rates if s in other]),
        "train_seconds": statistics.median(seconds) if seconds else None,
        "peak_memory_bytes": max(memory) if memory else None,
        "saved_bytes_per_token": saved[0] if saved else None,
    }


def health(runs: Runs) -> dict[str, Any] | None:
    """Means over runs of what the probes measured, layer by layer; `dead_range` is the range over runs."""
    found = [run for run in runs.ok.values() if run.get("health")]
    if not found:
        return None
    layers = []
    for rows in zip(*(run["health"]["layers"] for run in found), strict=True):
        dead = [row["dead"] for row in rows]
        kurtosis = [row["kurtosis"] for row in rows if row["kurtosis"] is not None]
        layers.append({
            "layer": rows[0]["layer"],
            "units": rows[0]["units"],
            "dead": statistics.fmean(dead),
            "dead_range": [min(dead), max(dead)],
            "saturated": statistics.fmean(row["saturated"] for row in rows),
            "small_slope": {k: statistics.fmean(row["small_slope"][k] for row in rows) for k in rows[0]["small_slope"]},
            "pre_rms": statistics.fmean(row["pre_rms"] for row in rows),
            "rms": statistics.fmean(row["rms"] for row in rows),
            "kurtosis": statistics.fmean(kurtosis) if kurtosis else None,
        })  # fmt: skip
    return {
        "tokens": found[0]["health"]["tokens"],
        "firing_upper": found[0]["health"]["firing_upper"],
        "layers": layers,
        "gradient_ratio": {k: statistics.fmean(run["gradient_ratio"][k] for run in found) for k in ("start", "end")},
        "spikes_per_1000": statistics.fmean(run["spikes_per_1000"] for run in found),
    }


def metrics(runs: Runs, base: Runs) -> dict[str, Any] | None:
    """Means of the other numbers that a user's trial returned, and of their paired differences."""
    names = sorted({name for run in runs.ok.values() for name in run.get("metrics") or {}})
    if not names:
        return None
    out = {}
    for name in names:
        mine, theirs = ({s: r["metrics"].get(name) for s, r in x.ok.items()} for x in (runs, base))
        values = [v for v in mine.values() if v is not None]
        pairs = [mine[s] - theirs[s] for s in mine if mine[s] is not None and theirs.get(s) is not None]
        out[name] = {
            "mean": statistics.fmean(values) if values else None,
            "difference": statistics.fmean(pairs) if pairs and runs is not base else None,
            "n": len(values),
        }
    return out


def mean_curve(runs: Runs) -> dict[str, Any] | None:
    """Mean and range of the held-out loss over runs at each point; only where all runs have the same points."""
    curves = [run["curve"] for run in runs.ok.values()]
    if not curves or not curves[0]["step"] or any(c["step"] != curves[0]["step"] for c in curves):
        return None
    columns = list(zip(*(c["loss"] for c in curves), strict=True))
    return {
        "steps": curves[0]["step"],
        "mean": [statistics.fmean(column) for column in columns],
        "low": [min(column) for column in columns],
        "high": [max(column) for column in columns],
    }
