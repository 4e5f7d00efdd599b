"""What the statistics promise, on simulated studies, through the functions that judge real ones.

Each promise comes with the mistake that would break it, judged by the same measure: a test that passes either way shows
nothing. The seed is fixed. A rate of exactly 5 % in 10,000 studies lies 2.3 standard errors below 5.5 %, so that one of
seven sizes would exceed it by chance in 7 % of seeds; with 40,000 studies the distance is 4.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special
from scipy import stats as scipy_stats

from softgate.lab import stats

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

STUDIES = 40_000
PAIRS = (4, 5, 6, 7, 8, 9, 10)
SOME = (4, 7, 10)  # enough to show that a mistake breaks the promise
SD = 0.005  # nats/byte, of a paired difference; what small language models show
MARGIN = 0.01


def normal(dice: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return dice.standard_normal(shape)


def heavy(dice: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Student's t with 5 degrees of freedom, of variance 1: now and then a run far off."""
    return dice.standard_t(5, shape) * math.sqrt(3 / 5)


def skewed(dice: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Lognormal, strongly skewed, of mean 0 and variance 1."""
    e = math.e
    return (np.exp(dice.standard_normal(shape)) - math.sqrt(e)) / math.sqrt(e * (e - 1))


def differences(n: int, means: list[float], seed: int, draw: Draw = normal) -> list[Array]:
    """Studies of a baseline and an arm for each mean: [STUDIES, n] paired differences an arm, of standard deviation SD.

    The losses of a seed share a large part, as data order and initial weights do, and the arms share the baseline, so
    that their differences correlate at 0.5.
    """
    dice = np.random.default_rng((seed, n, len(means)))
    shared = 2.0 + 0.05 * dice.standard_normal((STUDIES, n))
    losses = shared + SD / math.sqrt(2) * draw(dice, (1 + len(means), STUDIES, n))
    return [losses[1 + k] - losses[0] + mean for k, mean in enumerate(means)]


def coverage(n: int, draw: Draw = normal) -> float:
    """Share of headline intervals that hold the true difference."""
    # The difference itself is drawn here: a difference of two skewed numbers would be symmetric.
    d = -0.012 + SD * draw(np.random.default_rng((1, n)), (STUDIES, n))
    found = stats.analyse(d)
    return float(((found.low <= -0.012) & (found.high >= -0.012)).mean())


def false_positives(n: int, arms: int, draw: Draw = normal) -> float:
    """Share of A/A studies in which any arm is called better or worse."""
    verdict = stats.judge(differences(n, [0.0] * arms, 2, draw), MARGIN).verdict
    return float(np.isin(verdict, ["better", "worse"]).any(axis=-1).mean())


def detections(n: int, arms: int, effect: float) -> float:
    """Share of studies that call the one real effect, among null arms, by its name."""
    verdict = stats.judge(differences(n, [-effect] + [0.0] * (arms - 1), 3), MARGIN).verdict
    return float((verdict[:, 0] == "better").mean())


def test_headline_intervals_cover_the_truth() -> None:
    for n in PAIRS:
        assert 0.94 <= coverage(n) <= 0.96, n


def test_normal_quantiles_would_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_hurdle", lambda df, level: -float(special.ndtri(level / 2)))
    assert all(coverage(n) < 0.94 for n in SOME)


def test_headline_intervals_bear_heavy_tails() -> None:
    for n in PAIRS:
        assert 0.935 <= coverage(n, heavy) <= 0.97, n


def test_differences_that_are_strongly_skewed_would_show() -> None:
    assert all(coverage(n, skewed) < 0.935 for n in SOME)


@pytest.mark.parametrize("arms", [1, 2, 3, 4, 5])
def test_equal_arms_are_seldom_called_different(arms: int) -> None:
    for n in PAIRS:
        rate = false_positives(n, arms)
        assert rate <= 0.055, n
        # Nor is the rate kept by calling nothing: at correlation 0.5 Holm wastes little.
        assert rate >= 0.03, n


@pytest.mark.parametrize("arms", [2, 5])
def test_without_holm_they_would_be_called_different(arms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "holm", np.asarray)
    assert all(false_positives(n, arms) > 0.055 for n in SOME)


def test_heavy_tails_call_no_more_of_them_different() -> None:
    assert all(false_positives(n, arms, heavy) <= 0.055 for n in SOME for arms in (1, 5))


@pytest.mark.parametrize("arms", [1, 2, 3, 5])
def test_the_planned_smallest_detectable_effect_is_detected(arms: int) -> None:
    for n in (4, 5, 6, 8, 10):
        assert 0.77 <= detections(n, arms, stats.smallest_detectable(SD, n, arms=arms)) <= 0.83, n


@pytest.mark.parametrize("arms", [2, 5])
def test_planned_for_a_single_arm_it_would_be_missed(arms: int) -> None:
    assert all(detections(n, arms, stats.smallest_detectable(SD, n)) < 0.77 for n in SOME)


def test_planned_with_a_wrong_multiple_it_would_be_missed() -> None:
    for n in SOME:
        textbook = SD * (special.ndtri(0.975) + special.ndtri(0.8)) / math.sqrt(n)  # as if the sd were known
        assert detections(n, 1, textbook) < 0.77
        right = stats.smallest_detectable(SD, n)
        assert detections(n, 1, 0.9 * right) < 0.77
        assert detections(n, 1, 1.1 * right) > 0.83


def test_power_is_the_share_of_studies_that_detect() -> None:
    # Four standard errors of a rate are at most 1 point.
    for n in SOME:
        for effect in (0.5 * SD, SD, 2 * SD):
            assert detections(n, 1, effect) == pytest.approx(stats.power(effect, SD, n), abs=0.01)


@pytest.mark.parametrize("side", [-1, 1])
def test_arms_at_the_margin_are_seldom_called_equivalent(side: int) -> None:
    for n in PAIRS:
        d = differences(n, [side * MARGIN], 4)[0]
        errs = float((stats.analyse(d, MARGIN).p_equivalence <= 0.05).mean())
        # The margin is two standard deviations: the other side hardly counts and the rate is near its bound.
        assert 0.04 <= errs <= 0.055, n


def test_noisy_arms_at_the_margin_are_hardly_ever_called_equivalent() -> None:
    # With an sd of five margins nothing may be shown equivalent by luck with the standard deviation.
    for n in PAIRS:
        d = differences(n, [SD], 4)[0]
        assert (stats.analyse(d, SD / 5).p_equivalence <= 0.05).mean() <= 0.055, n


@pytest.mark.parametrize("side", [-1, 1])
def test_one_half_of_the_equivalence_test_would_err(side: int) -> None:
    for n in SOME:
        d = differences(n, [side * MARGIN], 4)[0]
        half = "greater" if side > 0 else "less"  # the half that looks away from the margin at hand
        p = scipy_stats.ttest_1samp(d, -side * MARGIN, axis=-1, alternative=half).pvalue
        assert (p <= 0.05).mean() > 0.055, n


@pytest.mark.parametrize("arms", [2, 5])
def test_no_arm_of_a_family_at_the_margin_is_often_called_equivalent(
    arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(n: int) -> float:
        found = stats.judge(differences(n, [MARGIN] * arms, 5), MARGIN)
        return float((found.p_equivalence_holm <= 0.05).any(axis=-1).mean())

    assert all(wrong(n) <= 0.055 for n in PAIRS)
    monkeypatch.setattr(stats, "holm", np.asarray)
    assert all(wrong(n) > 0.055 for n in SOME)


def test_arms_that_are_equal_are_called_equivalent_when_there_are_pairs_enough() -> None:
    # The bounds above would hold for a test that never calls anything equivalent.
    verdict = stats.judge(differences(10, [0.0, 0.0], 6), MARGIN).verdict
    assert (verdict == "equivalent").mean() > 0.9


def test_the_records_say_what_the_simulation_counts() -> None:
    arms = differences(6, [-0.02, 0.0, 0.004], 7)
    counted = stats.judge(arms, MARGIN)
    for study in range(100):
        judged = stats.family({str(k): arm[study] for k, arm in enumerate(arms)}, margin=MARGIN)
        assert [one.verdict for one in judged.values()] == counted.verdict[study].tolist()
        assert [one.p_holm for one in judged.values()] == counted.p_holm[study].tolist()
        assert [one.p_equivalence_holm for one in judged.values()] == counted.p_equivalence_holm[study].tolist()


def test_the_geometric_mean_of_ratios_is_covered_too() -> None:
    dice = np.random.default_rng(8)
    logs = math.log(1.3) + 0.1 * dice.standard_normal((STUDIES // 8, 6))
    found = [stats.ratio(row) for row in np.exp(logs)]
    covered = sum(low <= 1.3 <= high for _, low, high in found) / len(found)
    assert 0.94 <= covered <= 0.96
