"""Planning: seeds and steps that fill a budget, what they can see, and a budget that cannot work."""

import pytest
from studies import make_study

from softgate.errors import BadInput
from softgate.lab import plan, stats

TIMES = {arm: {"step": 0.02, "overhead": 1.0} for arm in ("relu", "gelu", "swiglu")}


def budgeted(seconds: float, **changes: object):
    return plan.make(make_study(budget=seconds, seeds=None, steps=None, **changes), 2, TIMES)


@pytest.mark.parametrize("seconds", [120.0, 180.0, 300.0, 1200.0, 3600.0, 20_000.0])
def test_a_plan_fills_its_budget_and_stays_below(seconds: float) -> None:
    made = budgeted(seconds)
    assert made.predicted_seconds is not None
    assert 0.75 * seconds < made.predicted_seconds <= plan.USABLE * seconds
    assert made.pilot_steps == made.steps // 2


def test_a_slow_machine_runs_the_smallest_plan_when_nobody_named_a_budget() -> None:
    made = budgeted(5.0, default_budget=True)
    assert (made.seeds, made.steps) == (5, plan.FEWEST_STEPS)
    assert made.predicted_seconds is not None
    assert made.predicted_seconds > 5.0


def test_more_budget_buys_steps_and_then_pairs_and_a_smaller_effect() -> None:
    plans = [budgeted(s) for s in (120.0, 300.0, 1200.0, 4000.0, 20_000.0)]
    assert [p.seeds for p in plans] == sorted(p.seeds for p in plans)
    assert plans[0].seeds < plans[-1].seeds
    assert [p.steps for p in plans] == sorted(p.steps for p in plans)
    detectable = [p.smallest_detectable or 0.0 for p in plans]
    assert detectable == sorted(detectable, reverse=True)


def test_the_smallest_detectable_effect_is_the_one_of_the_statistics() -> None:
    made = budgeted(1200.0)
    assert made.smallest_detectable == stats.smallest_detectable(0.01, made.seeds, arms=2)
    assert made.smallest_detectable_sd == stats.smallest_detectable(1.0, made.seeds, arms=2)
    assert made.larger is not None
    assert made.larger["budget_seconds"] == 4800.0
    assert made.larger["smallest_detectable"] < made.smallest_detectable


def test_more_workers_do_more() -> None:
    study = make_study(budget=600.0, seeds=None, steps=None)
    assert plan.make(study, 4, TIMES).steps > plan.make(study, 2, TIMES).steps


def test_what_is_set_by_hand_stays() -> None:
    study = make_study(budget=600.0, seeds=7, steps=None)
    assert plan.make(study, 2, TIMES).seeds == 7
    study = make_study(budget=600.0, seeds=None, steps=300)
    made = plan.make(study, 2, TIMES)
    assert made.steps == 300
    assert made.predicted_seconds is not None
    assert made.predicted_seconds <= plan.USABLE * 600
    made = plan.make(make_study(seeds=3, steps=50), 2, {})
    assert (made.seeds, made.steps, made.predicted_seconds, made.larger) == (3, 50, None, None)


def test_no_pilot_for_a_rate_by_hand_or_a_users_trial() -> None:
    assert plan.make(make_study(lr=dict.fromkeys(("relu", "gelu", "swiglu"), 1e-3)), 2, {}).pilot_seeds == 0
    assert plan.make(make_study(target="m:f"), 2, {}).pilot_seeds == 0
    assert plan.make(make_study(), 2, {}).pilot_seeds > 0


def test_an_unknown_spread_gives_the_effect_in_standard_deviations() -> None:
    made = plan.make(make_study(sd=None), 2, {})
    assert made.smallest_detectable is None
    assert made.smallest_detectable_sd == pytest.approx(stats.smallest_detectable(1.0, 4, arms=2))


def test_a_budget_that_is_too_small_names_one_that_works() -> None:
    with pytest.raises(BadInput, match=r"too small.*--budget (\d+)s") as caught:
        budgeted(20.0)
    enough = float(str(caught.value).split("--budget ")[1].split("s")[0])
    assert budgeted(enough).seeds >= 4
    with pytest.raises(BadInput, match="too small"):
        budgeted(enough / 1.3)
