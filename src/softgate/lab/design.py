"""The design as a pure function: which trials a study needs, given those that are finished.

Every arm runs on the same seeds: with a seed come the data order and, where name and shape agree, the initial weights.
The learning rate is tuned for each arm on seeds of its own, over a grid that grows while the best lies on its edge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from softgate.lab.spec import Phase, Plan, StudySpec, TrialSpec

PILOT_SEED = 10_000
ORDER_SHIFT = 1_000_000
# How often the grid may grow at either end; at a factor of 2 that is a factor of 8.
WIDENINGS = 3

Losses = Mapping[str, float | None]
"""Final loss by trial key; None for a trial that diverged or failed."""


class Pilot(msgspec.Struct, frozen=True, kw_only=True):
    """How far the tuning of one arm is: what is still to run, and the rate it chose once nothing is."""

    missing: tuple[TrialSpec, ...]
    rates: tuple[float, ...]
    losses: tuple[float | None, ...]
    diverged: tuple[int, ...]
    chosen: float | None
    on_edge: bool


def trial(study: StudySpec, plan: Plan, arm: str, phase: Phase, seed: int, lr: float | None) -> TrialSpec:
    """The spec of one trial of a study."""
    other = phase == "aa"
    return TrialSpec(
        arm=arm,
        phase=phase,
        # A user's function knows one seed only, so its A/A arm changes that one.
        seed=seed + ORDER_SHIFT if other and study.target is not None else seed,
        order_seed=seed + ORDER_SHIFT if other else seed,
        steps=plan.pilot_steps if phase == "pilot" else plan.steps,
        lr=lr,
        model=study.model,
        train=study.train,
        text=study.text,
        target=study.target,
        source=study.source,
    )


def pilot(study: StudySpec, plan: Plan, arm: str, losses: Losses) -> Pilot:
    """Tune one arm: mean pilot loss by rate, the grid widened by its own factor while the best is on its edge."""
    if study.target is not None or study.lr is not None:
        rate = None if study.lr is None else study.lr[arm]
        return Pilot(missing=(), rates=(), losses=(), diverged=(), chosen=rate, on_edge=False)
    rates = list(plan.learning_rates)
    factor = rates[1] / rates[0] if len(rates) > 1 else 2.0
    low = high = 0
    while True:
        grid = [[trial(study, plan, arm, "pilot", PILOT_SEED + s, lr) for s in range(plan.pilot_seeds)] for lr in rates]
        missing = tuple(spec for row in grid for spec in row if spec.key not in losses)
        if missing:
            return Pilot(missing=missing, rates=tuple(rates), losses=(), diverged=(), chosen=None, on_edge=False)
        found = [[losses[spec.key] for spec in row] for row in grid]
        means = [math.inf if None in row else math.fsum(x for x in row if x is not None) / len(row) for row in found]
        best = means.index(min(means))  # all diverged: the smallest rate, and smaller ones are tried
        if best == 0 and low < WIDENINGS:
            rates.insert(0, _round(rates[0] / factor))
            low += 1
        elif best == len(rates) - 1 and math.isfinite(means[best]) and high < WIDENINGS:
            rates.append(_round(rates[-1] * factor))
            high += 1
        else:
            return Pilot(
                missing=(),
                rates=tuple(rates),
                losses=tuple(m if math.isfinite(m) else None for m in means),
                diverged=tuple(sum(x is None for x in row) for row in found),
                chosen=rates[best],
                on_edge=best in (0, len(rates) - 1),
            )


def needed(study: StudySpec, plan: Plan, losses: Losses) -> list[TrialSpec]:
    """The trials that can be run now and are not finished: pilots first, then seed by seed through the arms.

    An arm's final runs are needed as soon as its own rate is chosen; no arm waits for another one's pilot.
    """
    pilots = {arm: pilot(study, plan, arm, losses) for arm in study.arms}
    first = [spec for p in pilots.values() for spec in p.missing]
    finals = [
        trial(study, plan, arm, phase, seed, pilots[arm].chosen)
        for seed in range(plan.seeds)
        for arm, phase in finals_of(study)
        if not pilots[arm].missing
    ]
    return first + [spec for spec in finals if spec.key not in losses]


def finals_of(study: StudySpec) -> list[tuple[str, Phase]]:
    """The arms of the final runs and, beside the baseline, its A/A arm."""
    rows: list[tuple[str, Phase]] = []
    for arm in study.arms:
        rows.append((arm, "final"))
        if arm == study.baseline:
            rows.append((arm, "aa"))
    return rows


def expected_total(study: StudySpec, plan: Plan, losses: Losses) -> int:
    """How many trials the study has in all, as far as can be said now: the grids may still grow."""
    finals = plan.seeds * len(finals_of(study))
    if study.target is not None or study.lr is not None:
        return finals
    return finals + sum(len(pilot(study, plan, arm, losses).rates) for arm in study.arms) * plan.pilot_seeds


def _round(rate: float) -> float:
    return float(f"{rate:.6g}")
