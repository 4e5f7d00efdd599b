"""Which trials a study needs: pairing, tuning on seeds of its own, grids that grow, an A/A arm."""

import math
from collections.abc import Callable

import pytest
from studies import complete, make_plan, make_study

from softgate.lab import design
from softgate.lab.spec import TrialSpec

RATES = (1e-3, 2e-3, 4e-3)


def bowl(best: dict[str, float]) -> Callable[[TrialSpec], float]:
    """A loss with its minimum at the rate best[arm]."""

    def loss(spec: TrialSpec) -> float:
        assert spec.lr is not None
        return 2.0 + math.log2(spec.lr / best[spec.arm]) ** 2

    return loss


def test_final_runs_are_paired_and_the_pilot_has_seeds_of_its_own() -> None:
    study, plan = make_study(), make_plan()
    _, order = complete(study, plan, bowl(dict.fromkeys(study.arms, 2e-3)))
    finals = [s for s in order if s.phase == "final"]
    for arm in study.arms:
        assert [(s.seed, s.order_seed) for s in finals if s.arm == arm] == [(i, i) for i in range(4)]
    pilots = [s for s in order if s.phase == "pilot"]
    assert len(pilots) == 9
    assert not {s.seed for s in pilots} & {s.seed for s in finals}
    assert {s.steps for s in pilots} == {50}
    assert {s.steps for s in finals} == {100}


def test_the_noise_floor_is_the_baseline_with_the_same_weights_in_another_order() -> None:
    study, plan = make_study(baseline="gelu"), make_plan()
    _, order = complete(study, plan, bowl(dict.fromkeys(study.arms, 2e-3)))
    aa = [s for s in order if s.phase == "aa"]
    assert [s.seed for s in aa] == [0, 1, 2, 3]
    assert all(s.arm == "gelu" and s.order_seed == s.seed + design.ORDER_SHIFT for s in aa)
    assert len({s.key for s in order}) == len(order)


@pytest.mark.parametrize(
    ("best", "rates"),
    [
        (2e-3, RATES),
        (4e-3, (*RATES, 8e-3)),
        (1e-3, (5e-4, *RATES)),
        (16e-3, (*RATES, 8e-3, 16e-3, 32e-3)),
        (1.0, (*RATES, 8e-3, 16e-3, 32e-3)),
    ],
)
def test_the_grid_grows_until_the_best_is_inside(best: float, rates: tuple[float, ...]) -> None:
    study, plan = make_study(), make_plan()
    losses, _ = complete(study, plan, bowl({"relu": best, "gelu": 2e-3, "swiglu": 2e-3}))
    pilot = design.pilot(study, plan, "relu", losses)
    assert pilot.rates == pytest.approx(rates)
    assert pilot.on_edge == (best == 1.0)
    assert pilot.chosen == pytest.approx(min(best, rates[-1]))
    # The other arms keep their own choice.
    assert design.pilot(study, plan, "gelu", losses).chosen == 2e-3
    assert not design.pilot(study, plan, "gelu", losses).on_edge


def test_divergence_counts_as_the_worst_and_drives_the_grid_down() -> None:
    study, plan = make_study(), make_plan()

    def loss(spec: TrialSpec) -> float | None:
        assert spec.lr is not None
        return None if spec.lr > 3e-4 else 2.0 + abs(math.log(spec.lr / 2.5e-4))

    losses, _ = complete(study, plan, loss)
    pilot = design.pilot(study, plan, "relu", losses)
    assert pilot.chosen == pytest.approx(2.5e-4)
    assert pilot.losses[-3:] == (None, None, None)
    assert pilot.diverged[-3:] == (1, 1, 1)


def test_an_arm_does_not_wait_for_another_ones_pilot() -> None:
    study, plan = make_study(), make_plan()
    losses: dict[str, float | None] = {}
    for spec in design.pilot(study, plan, "relu", losses).missing:
        losses[spec.key] = bowl({"relu": 2e-3})(spec)
    todo = design.needed(study, plan, losses)
    assert {s.arm for s in todo if s.phase == "final"} == {"relu"}
    assert {s.arm for s in todo if s.phase == "pilot"} == {"gelu", "swiglu"}


def test_a_rate_by_hand_means_no_pilot() -> None:
    study = make_study(lr={"relu": 1e-3, "gelu": 2e-3, "swiglu": 3e-3})
    todo = design.needed(study, make_plan(pilot_seeds=0), {})
    assert {s.phase for s in todo} == {"final", "aa"}
    assert {(s.arm, s.lr) for s in todo} == {("relu", 1e-3), ("gelu", 2e-3), ("swiglu", 3e-3)}


def test_a_users_trial_has_no_rate_and_its_noise_floor_other_seeds() -> None:
    study = make_study(target="m:f", model=None, train=None, text=None, lr=None, arms=("a", "b"), baseline="a")
    todo = design.needed(study, make_plan(pilot_seeds=0), {})
    assert {s.phase for s in todo} == {"final", "aa"}
    assert {s.lr for s in todo} == {None}
    assert {s.seed for s in todo if s.phase == "aa"} == {design.ORDER_SHIFT + i for i in range(4)}


def test_nothing_finished_is_needed_again_and_order_of_finishing_does_not_matter() -> None:
    study, plan = make_study(), make_plan()
    losses, order = complete(study, plan, bowl({"relu": 4e-3, "gelu": 1e-3, "swiglu": 2e-3}))
    assert design.needed(study, plan, losses) == []
    assert design.needed(study, plan, dict(reversed(losses.items()))) == []
    assert len(order) == design.expected_total(study, plan, losses)
    without = {k: v for k, v in losses.items() if k != order[-1].key}
    assert design.needed(study, plan, without) == [order[-1]]
