"""Planning: from measured speed and a budget to pilot, seeds and steps, and what the study will be able to see."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from softgate.errors import BadInput
from softgate.lab import stats
from softgate.lab.spec import Plan, StudySpec

# Seeds against steps: the most seeds whose runs still get this many steps. Few long runs show little, many short runs
# show something else than training; between the two the number of pairs grows first.
STEPS_FOR_SEEDS = ((16, 4000), (12, 2400), (10, 1600), (8, 700), (6, 350), (5, 0))
FEWEST_STEPS = 100
# Share of the budget that is planned: the machine is shared, and grids may grow (reserved below).
USABLE = 0.9
STARTUP_SECONDS = 5.0  # processes, torch, text; 3 to 5 s here
RESERVE_RATES = 0.5  # rates an arm's grid is expected to grow by, on average
TWO_PILOT_SEEDS = 480.0  # seconds of budget from which the pilot runs two seeds a rate
LARGER = 4  # the larger budget that the plan tells about


def make(study: StudySpec, workers: int, times: Mapping[str, Mapping[str, float]]) -> Plan:
    """The plan for a study; `times` holds "step" and "overhead" seconds by arm, empty when seeds and steps are given.

    Raises BadInput when the budget cannot pay for the smallest plan, and says what would.
    """
    seeds, steps = study.seeds, study.steps
    if seeds is None or steps is None:
        assert study.budget is not None
        seeds, steps = _fit(study, workers, times, study.budget)
    if seeds < 2:
        raise BadInput(f"--seeds {seeds} is too few: an interval needs at least two pairs; use 5 or more")
    if steps < 1:
        raise BadInput(f"--steps {steps} is too few; use at least 1")
    larger: dict[str, float | None] | None = None
    if study.budget is not None and (study.seeds is None or study.steps is None):
        budget = LARGER * study.budget
        more_seeds, more_steps = _fit(study, workers, times, budget)
        larger = {"budget_seconds": budget, "seeds": more_seeds, "steps": more_steps}
        larger |= {
            "smallest_detectable": _detectable(study, more_seeds),
            "smallest_detectable_sd": _multiple(study, more_seeds),
        }
    return Plan(
        seeds=seeds,
        steps=steps,
        pilot_seeds=_pilot_seeds(study),
        pilot_steps=max(steps // 2, 1),
        learning_rates=study.learning_rates,
        workers=workers,
        budget_seconds=study.budget,
        predicted_seconds=_predict(study, workers, times, seeds, steps) if times else None,
        assumed_sd=study.sd,
        seconds_per_step={arm: t["step"] for arm, t in times.items()},
        overhead_seconds={arm: t["overhead"] for arm, t in times.items()},
        larger=larger,
        source=study.source,
        smallest_detectable_sd=_multiple(study, seeds),
        smallest_detectable=_detectable(study, seeds),
    )


def blank(study: StudySpec, workers: int) -> Plan:
    """A plan of one short seed, for timing before there is a real one."""
    return msgspec.structs.replace(
        make(msgspec.structs.replace(study, seeds=2, steps=16, budget=None), workers, {}), seeds=1
    )


def _multiple(study: StudySpec, seeds: int) -> float:
    """Smallest detectable effect (80 % power at the first Holm step) in standard deviations of a paired difference."""
    return stats.smallest_detectable(1.0, seeds, alpha=study.alpha, arms=max(len(study.arms) - 1, 1))


def _detectable(study: StudySpec, seeds: int) -> float | None:
    return None if study.sd is None else _multiple(study, seeds) * study.sd


def _pilot_seeds(study: StudySpec) -> int:
    if study.lr is not None or study.target is not None:
        return 0
    return 2 if study.budget is None or study.budget >= TWO_PILOT_SEEDS else 1


def _fit(study: StudySpec, workers: int, times: Mapping[str, Mapping[str, float]], budget: float) -> tuple[int, int]:
    """Seeds and steps that fill the budget; what the user fixed stays fixed."""
    if study.steps is not None:
        seeds = 2
        while seeds < 64 and _predict(study, workers, times, seeds + 1, study.steps) <= USABLE * budget:
            seeds += 1
        _affordable(study, workers, times, budget, seeds, study.steps)
        return seeds, study.steps
    choices = STEPS_FOR_SEEDS if study.seeds is None else ((study.seeds, 0),)
    for seeds, least in choices:
        # The prediction is linear in the steps, up to rounding.
        at0, at1000 = (_predict(study, workers, times, seeds, steps) for steps in (0, 1000))
        steps = int((USABLE * budget - at0) / (at1000 - at0) * 1000)
        if steps >= least or (seeds, least) == choices[-1]:
            break
    steps = max(steps, FEWEST_STEPS)
    _affordable(study, workers, times, budget, seeds, steps)
    return seeds, steps - steps % 10


def _affordable(
    study: StudySpec, workers: int, times: Mapping[str, Mapping[str, float]], budget: float, seeds: int, steps: int
) -> None:
    least = _predict(study, workers, times, seeds, steps) / USABLE
    if least > budget * 1.001 and not study.default_budget:
        raise BadInput(
            f"a budget of {budget:.0f}s is too small: {seeds} seeds of {steps} steps for {len(study.arms)} arms need "
            f"about {least:.0f}s on this machine; give --budget {least * 1.1 + 1:.0f}s, fewer arms or another --preset"
        )


def _predict(study: StudySpec, workers: int, times: Mapping[str, Mapping[str, float]], seeds: int, steps: int) -> float:
    """Seconds of wall time: all trials over the workers, the start, and half a trial of idle end."""
    rates = (len(study.learning_rates) + RESERVE_RATES) * _pilot_seeds(study)
    work = 0.0
    for arm, time in times.items():
        final = steps * time["step"] + time["overhead"]
        short = steps / 2 * time["step"] + time["overhead"]
        runs = seeds * (2 if arm == study.baseline else 1)
        work += runs * final + rates * short
    longest = max(steps * time["step"] + time["overhead"] for time in times.values())
    return work / workers + STARTUP_SECONDS + longest * (workers - 1) / workers / 2
