"""From a study's trials to its document: pairing, statistics, words. The report and --json show it, nothing more."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from softgate.lab import compared, design, stats
from softgate.lab.spec import Plan, StudySpec
from softgate.lab.store import Trial
from softgate.lab.words import headline

SCHEMA = "softgate.compare/1"


def document(
    study: StudySpec,
    plan: Plan,
    trials: Sequence[Trial],
    sessions: Sequence[dict[str, Any]],
    *,
    data: dict[str, Any] | None,
    command: str | None,
    created: str | None,
) -> dict[str, Any]:
    """The comparison document (builtins, JSON-safe; missing numbers are None with a reason beside them)."""
    losses = {t.spec.key: t.result["loss"] for t in trials if t.status != "failed"}
    pilots = {arm: design.pilot(study, plan, arm, losses) for arm in study.arms}
    finals = {
        (arm, phase): compared.Runs.of(study, plan, pilots[arm].chosen, arm, phase, trials)
        for arm, phase in design.finals_of(study)
    }
    base = finals[(study.baseline, "final")]
    differences = {
        arm: pairs
        for (arm, phase), runs in finals.items()
        if phase == "final" and arm != study.baseline and len(pairs := compared.differences(runs, base)) >= 2
    }
    judged = stats.family(differences, margin=study.margin, alpha=study.alpha, unit=study.unit)
    arms = [
        _arm(
            study,
            plan,
            finals,
            runs,
            judged.get(arm) if phase == "final" else None,
            pilots[arm],
            pilots,
            losses,
            trials,
        )
        for (arm, phase), runs in finals.items()
    ]
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "title": f"{', '.join(study.arms)} on {study.text_name or study.target}",
        "created": created,
        "command": command,
        "complete": not design.needed(study, plan, losses),
        "metric": {"name": "held-out loss" if study.target is None else "loss", "unit": study.unit},
        "baseline": study.baseline,
        "margin": study.margin,
        "alpha": study.alpha,
        "headline": [],
        "arms": arms,
        "noise_floor": _noise_floor(study, arms),
        "pilot": _pilot_rows(pilots, plan),
        "trials": [_trial(t) for t in trials],
        "data": data,
        "plan": msgspec.to_builtins(plan),
        "execution": execution(trials, sessions),
        "model": None if study.model is None else msgspec.to_builtins(study.model),
        "training": None if study.train is None else msgspec.to_builtins(study.train),
        "environment": trials[-1].environment if trials else {},
    }
    result["headline"] = headline(result)
    return result


def _arm(
    study: StudySpec,
    plan: Plan,
    finals: dict[tuple[str, Any], compared.Runs],
    runs: compared.Runs,
    judged: stats.Judged | None,
    pilot: design.Pilot,
    pilots: dict[str, design.Pilot],
    losses: design.Losses,
    trials: Sequence[Trial],
) -> dict[str, Any]:
    base = finals[(study.baseline, "final")]
    is_base = runs is base
    row: dict[str, Any] = {
        "arm": runs.label,
        "role": "baseline" if is_base else "aa" if runs.phase == "aa" else "arm",
        "n": len(runs.ok),
        "planned": plan.seeds,
        "diverged": runs.diverged,
        "failed": runs.failed,
        "lr": pilot.chosen,
        "lr_on_edge": pilot.on_edge,
        "parameters": runs.first("parameters"),
        "d_ff": runs.first("d_ff"),
        "loss": runs.mean_loss,
        "loss_sd": statistics.stdev(runs.losses.values()) if len(runs.ok) > 1 else None,
        **dict.fromkeys(
            ("difference", "interval", "bootstrap", "sd", "p", "p_holm", "p_equivalence", "smallest_detectable")
        ),
        "verdict": "baseline" if is_base else "undecided",
        "words": "baseline" if is_base else "undecided",
        "reason": None,
        "perplexity_ratio": None,
        "common_lr": compared.common_rate(study, plan, runs.arm, pilots, losses) if runs.phase == "final" else None,
        "equal_time": compared.equal_time(study, plan, finals, runs, losses, pilots) if runs.phase == "final" else None,
        "to_target": compared.to_target(finals, runs),
        "speed": compared.speed(runs, base),
        "health": compared.health(runs),
        "metrics": compared.metrics(runs, base),
        "curve": compared.mean_curve(runs),
    }
    if is_base:
        return row
    pairs = compared.differences(runs, base)
    row["n"] = len(pairs)  # what the difference rests on: the baseline may have lost a seed too
    if len(pairs) < 2:
        row["reason"] = f"{len(pairs)} complete pairs of {plan.seeds}; an interval needs two"
        return row
    paired = stats.paired(pairs, margin=study.margin, alpha=study.alpha)
    row |= {
        "difference": paired.mean,
        "interval": list(paired.interval),
        "bootstrap": list(stats.bootstrap_interval(pairs, alpha=study.alpha)),
        "sd": paired.sd,
        "p": paired.p,
        "p_equivalence": paired.p_equivalence,
        "smallest_detectable": paired.smallest_detectable,
    }
    if judged is not None:
        row |= {
            "p_holm": judged.p_holm,
            "verdict": judged.verdict,
            "words": judged.words,
            "smallest_detectable": judged.smallest_detectable,
        }
    else:
        row["words"] = "noise floor"
    if study.unit == "nats/byte":
        low, high = paired.interval
        row["perplexity_ratio"] = dict(
            zip(("estimate", "low", "high"), np.exp([paired.mean, low, high]).tolist(), strict=True)
        )
    return row


def _noise_floor(study: StudySpec, arms: list[dict[str, Any]]) -> dict[str, Any] | None:
    row = next(a for a in arms if a["role"] == "aa")
    if row["difference"] is None:
        return None
    low, high = row["interval"]
    return {
        "arm": row["arm"], "difference": row["difference"], "interval": [low, high], "sd": row["sd"], "n": row["n"],
        "inside": low <= 0.0 <= high,
    }  # fmt: skip


def _pilot_rows(pilots: dict[str, design.Pilot], plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "arm": arm,
            "lr": lr,
            "loss": loss,
            "n": plan.pilot_seeds - diverged,
            "diverged": diverged,
            "chosen": lr == p.chosen,
        }
        for arm, p in pilots.items()
        for lr, loss, diverged in zip(p.rates, p.losses, p.diverged, strict=False)
    ]


def _trial(trial: Trial) -> dict[str, Any]:
    spec, result = trial.spec, trial.result
    return {
        "arm": compared.label(spec.arm, spec.phase),
        "phase": spec.phase,
        "seed": spec.seed,
        "lr": spec.lr,
        "steps": spec.steps,
        "loss": result["loss"],
        "status": trial.status,
        "error": result["reason"],
        "seconds": trial.seconds,
        "tokens_per_second": result.get("tokens_per_second"),
        "peak_memory_bytes": result.get("peak_memory_bytes"),
        "parameters": result.get("parameters"),
        "key": spec.key,
        "curve": result.get("curve"),
    }


def execution(trials: Sequence[Trial], sessions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Wall time, and the share of it in which the workers were in a trial, over all sessions that finished one."""
    wall = room = 0.0
    for session in sessions:
        ends = [t.finished for t in trials if t.session == session["id"]]
        if ends:
            wall += max(ends) - session["started"]
            room += (max(ends) - session["started"]) * session["workers"]
    busy = sum(t.seconds for t in trials)
    return {
        "wall_seconds": wall,
        "busy_share": busy / room if room > 0 else None,
        "workers": sessions[-1]["workers"] if sessions else None,
        "sessions": len(sessions),
        "retries": sum(s["retries"] for s in sessions),
    }
