"""The statistics on given numbers: against scipy, against integrals done another way, and where numbers are extreme."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from softgate.errors import BadInput
from softgate.lab import stats

DIFFERENCES = np.array([-0.021, -0.012, -0.03, 0.004, -0.019, -0.008])


def around(mean: float, sd: float = 0.001, n: int = 8) -> stats.Array:
    """n numbers with exactly this mean and standard deviation, up to rounding."""
    x = np.linspace(-1.0, 1.0, n)
    return np.asarray(mean + sd * x / x.std(ddof=1))


# paired


def test_interval_and_p_agree_with_scipy() -> None:
    found = stats.paired(DIFFERENCES)
    expected = scipy_stats.ttest_1samp(DIFFERENCES, 0.0)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-12)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-12)
    assert found.n == 6
    assert found.mean == pytest.approx(DIFFERENCES.mean(), rel=1e-15)
    assert found.sd == pytest.approx(DIFFERENCES.std(ddof=1), rel=1e-14)
    wide = stats.paired(DIFFERENCES, alpha=0.01)
    assert wide.interval == pytest.approx(tuple(expected.confidence_interval(0.99)), rel=1e-12)
    assert wide.p == found.p


@pytest.mark.parametrize("shift", [-0.03, -0.005, 0.0, 0.014, 0.05])
def test_equivalence_is_the_larger_of_two_one_sided_tests(shift: float) -> None:
    d = DIFFERENCES + shift
    above = scipy_stats.ttest_1samp(d, -0.02, alternative="greater").pvalue
    below = scipy_stats.ttest_1samp(d, 0.02, alternative="less").pvalue
    assert stats.paired(d, margin=0.02).p_equivalence == pytest.approx(max(above, below), rel=1e-10)


def test_smallest_detectable_uses_the_observed_spread() -> None:
    found = stats.paired(around(0.0, sd=0.003, n=8))
    assert found.smallest_detectable == pytest.approx(1.156 * 0.003, rel=1e-3)


@pytest.mark.parametrize(
    ("value", "p", "p_equivalence"),
    [(0.0, 1.0, 0.0), (0.1, 0.0, 1.0), (-0.1, 0.0, 1.0), (0.005, 0.0, 0.0), (0.01, 0.0, 1.0), (5e-324, 0.0, 0.0)],
)
def test_equal_differences_are_a_point(value: float, p: float, p_equivalence: float) -> None:
    found = stats.paired([value] * 3)  # 0.1 three times has a mean that is not 0.1 in floating point
    assert found.interval == (value, value)
    assert (found.mean, found.sd, found.p, found.p_equivalence) == (value, 0.0, p, p_equivalence)
    assert found.smallest_detectable == 0.0
    assert stats.bootstrap_interval([value] * 3) == (value, value)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e-3, 1e150, 1e295])
def test_scale_changes_nothing_but_the_unit(scale: float) -> None:
    plain = stats.paired(DIFFERENCES, margin=0.01)
    scaled = stats.paired(DIFFERENCES * scale, margin=0.01 * scale)
    # Below 1e-308 the numbers themselves keep fewer digits.
    rel = 1e-10 if scale > 1e-300 else 1e-6
    assert scaled.p == pytest.approx(plain.p, rel=rel)
    assert scaled.p_equivalence == pytest.approx(plain.p_equivalence, rel=rel)
    assert [x / scale for x in scaled.interval] == pytest.approx(plain.interval, rel=rel)
    low, high = stats.bootstrap_interval(DIFFERENCES * scale)
    assert [low / scale, high / scale] == pytest.approx(stats.bootstrap_interval(DIFFERENCES), rel=rel)


def test_margins_far_from_the_differences() -> None:
    assert stats.paired(DIFFERENCES, margin=1e300).p_equivalence < 1e-300
    assert stats.paired(np.array([5e-324, 0.0, 5e-324]), margin=1e300).p_equivalence == 0.0
    assert stats.paired(DIFFERENCES, margin=5e-324).p_equivalence == pytest.approx(
        1 - stats.paired(DIFFERENCES).p / 2, rel=1e-12
    )


@pytest.mark.parametrize(
    "bad",
    [[], [0.1], 0.1, [0.1, math.nan], [0.1, math.inf], [0.1, -1e301], [[0.1, 0.2]], ["a", "b"], [[0.1], [0.1, 0.2]]],
)
def test_unusable_differences_are_one_line(bad: Any) -> None:
    functions: list[Callable[[Any], object]] = [
        stats.paired, stats.bootstrap_interval, stats.ratio, lambda d: stats.family({"a": d})
    ]  # fmt: skip
    for function in functions:
        with pytest.raises(BadInput) as caught:
            function(bad)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{"margin": 0.0}, {"margin": math.nan}, {"margin": -1.0}, {"alpha": 0.0}, {"alpha": 1.0}]
)
def test_margin_and_alpha_must_make_sense(settings: dict[str, float]) -> None:
    with pytest.raises(BadInput, match=next(iter(settings))):
        stats.paired(DIFFERENCES, **settings)


def test_many_studies_at_once_are_the_single_studies() -> None:
    many = np.random.default_rng(0).normal(0.0, 0.01, (5, 3, 7))
    many[1, 2] = 0.25
    found = stats.analyse(many, 0.01)
    assert found.p.shape == (5, 3)
    for i, j in np.ndindex(5, 3):
        one = stats.paired(many[i, j])
        assert [x[i, j] for x in found] == [one.mean, one.sd, *one.interval, one.p, one.p_equivalence]


def test_a_result_can_be_shown_and_stored() -> None:
    found = stats.paired(DIFFERENCES)
    stored = found.to_dict()
    assert json.loads(json.dumps(stored)) == stored
    assert stored["interval"] == list(found.interval)
    low, high = found.interval
    assert str(found).startswith(f"-0.01433, 95 % interval {low:+.4g} to {high:+.4g}, n = 6, p = 0.0")
    judged = stats.family({"<b>": DIFFERENCES})["<b>"]
    assert json.loads(json.dumps(judged.to_dict())) == judged.to_dict()
    assert "p (Holm)" in str(judged)
    assert judged._repr_html_().startswith("<pre>better")
    html = stats.family({"a": around(0.0)}, unit="<nats>")["a"]._repr_html_()
    assert "&lt;nats&gt;" in html
    assert "<nats>" not in html


# bootstrap


def test_bootstrap_is_the_same_for_the_same_seed() -> None:
    first = stats.bootstrap_interval(DIFFERENCES)
    assert stats.bootstrap_interval(DIFFERENCES) == first
    assert stats.bootstrap_interval(DIFFERENCES, seed=1) != first


def test_bootstrap_is_the_percentiles_of_resampled_means() -> None:
    # Of two numbers a resampled mean is the lower, the middle or the upper with chances 1/4, 1/2, 1/4.
    assert stats.bootstrap_interval([1.0, 2.0]) == pytest.approx((1.0, 2.0), rel=1e-12)
    assert stats.bootstrap_interval([1.0, 2.0], alpha=0.6) == pytest.approx((1.5, 1.5), rel=1e-12)
    dice = np.random.default_rng(1)
    skewed = np.exp(dice.normal(0.0, 1.0, 9))
    means = skewed[dice.integers(0, 9, (200_000, 9))].mean(axis=1)
    assert stats.bootstrap_interval(skewed) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), rel=0.02)


def test_bootstrap_nears_the_t_interval_for_many_pairs() -> None:
    many = np.random.default_rng(0).normal(1.0, 1.0, 400)
    assert stats.bootstrap_interval(many) == pytest.approx(stats.paired(many).interval, abs=0.02)
    assert stats.bootstrap_interval(many, alpha=0.5)[0] > stats.bootstrap_interval(many)[0]


@pytest.mark.parametrize(
    "few", [[0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [1e8, 1e8 + 1e-6], [1e-300, 2e-300], [1e299, -1e299, 1.0]]
)
def test_bootstrap_of_few_or_extreme_numbers_stays_among_them(few: list[float]) -> None:
    low, high = stats.bootstrap_interval(few)
    spread = max(few) - min(few)
    assert min(few) - 1e-9 * spread <= low <= high <= max(few) + 1e-9 * spread


# Holm


def test_holm_by_hand() -> None:
    # 4 x 0.005; 3 x 0.01 = 0.03; 2 x 0.03 = 0.06; 1 x 0.04 = 0.04, raised to 0.06.
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert stats.holm([0.2]).tolist() == [0.2]


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6), st.floats(0.001, 0.3))
def test_holm_rejects_what_the_step_down_procedure_rejects(p: list[float], alpha: float) -> None:
    rejected: set[int] = set()
    for step, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] * (len(p) - step) > alpha:
            break
        rejected.add(i)
    assert set(np.flatnonzero(stats.holm(p) <= alpha)) == rejected


def test_holm_takes_rows_and_refuses_what_is_no_p_value() -> None:
    rows = np.random.default_rng(0).random((4, 3))
    assert stats.holm(rows).tolist() == [stats.holm(row).tolist() for row in rows]
    for bad in ([0.5, math.nan], [-0.1], [1.1], 0.5):
        with pytest.raises(BadInput):
            stats.holm(bad)


# verdicts


@pytest.mark.parametrize(
    ("differences", "verdict", "words"),
    [
        (around(-0.02), "better", "better"),
        (around(0.02), "worse", "worse"),
        (around(-0.004), "better", "better, by less than the margin 0.01 nats/byte"),
        (around(0.004), "worse", "worse, by less than the margin 0.01 nats/byte"),
        (around(-0.0002), "equivalent", "equivalent within 0.01 nats/byte"),
        (around(-0.01, sd=0.02), "undetected", "no detectable difference (smallest detectable 0.023 nats/byte)"),
        # The mean lies inside the margin, but the interval does not: nothing is said of the margin.
        (around(-0.008, sd=0.005), "better", "better"),
    ],
)
def test_each_verdict_can_be_reached(differences: stats.Array, verdict: str, words: str) -> None:
    judged = stats.family({"arm": differences})["arm"]
    assert (judged.verdict, judged.words) == (verdict, words)


def test_thresholds_are_those_given() -> None:
    d = around(-0.004)
    assert stats.family({"a": d}, margin=0.002)["a"].words == "better"
    assert stats.family({"a": d}, alpha=1e-9)["a"].verdict == "undetected"
    assert stats.family({"a": around(0.0)}, unit="points")["a"].words == "equivalent within 0.01 points"
    edge = stats.paired(d).p
    assert stats.family({"a": d}, alpha=edge * 1.0001)["a"].verdict == "better"
    assert stats.family({"a": d}, alpha=edge * 0.9999)["a"].verdict != "better"


def test_other_arms_raise_the_hurdle() -> None:
    near = around(-0.01, sd=0.011, n=8)
    assert 0.025 < stats.paired(near).p < 0.05
    alone = stats.family({"a": near})["a"]
    assert alone.verdict == "better"
    among = stats.family({"a": near, "b": around(0.0, sd=0.01)})["a"]
    assert among.verdict == "undetected"
    assert among.p_holm == pytest.approx(2 * alone.p_holm)
    assert among.smallest_detectable > alone.smallest_detectable
    # A clear result beside it uses up the first, stricter step.
    assert stats.family({"a": near, "b": around(-0.5)})["a"].verdict == "better"


def test_equivalence_has_a_correction_of_its_own() -> None:
    near = around(0.0, sd=0.0125, n=8)
    alone = stats.family({"a": near})["a"]
    assert alone.verdict == "equivalent"
    among = stats.family({"a": near, "b": around(0.01, sd=0.02)})["a"]
    assert among.verdict == "undetected"
    assert among.p_equivalence_holm == pytest.approx(2 * alone.p_equivalence_holm)
    # Significant differences elsewhere do not make it easier.
    assert stats.family({"a": near, "b": around(-0.5)})["a"].verdict == "undetected"


def test_arms_may_have_lost_different_pairs_and_come_in_any_order() -> None:
    arms = {"a": around(-0.02, n=8), "b": around(0.001, n=5), "c": around(0.004, sd=0.004, n=2)}
    judged = stats.family(arms)
    assert stats.family(dict(reversed(arms.items()))) == judged
    assert list(judged) == list(arms)
    assert stats.family({}) == {}


# power


def reference_power(shift: float, df: int, level: float) -> float:
    """The other order of integration: over S, by mpmath."""
    with mpmath.workdps(20):
        c = mpmath.mpf(float(scipy_stats.t.ppf(1 - level / 2, df)))
        scale = 2 * (mpmath.mpf(df) / 2) ** (mpmath.mpf(df) / 2) / mpmath.gamma(mpmath.mpf(df) / 2)

        def integrand(s: Any) -> Any:
            density = scale * s ** (df - 1) * mpmath.exp(-df * s * s / 2)
            return density * (mpmath.ncdf(shift - c * s) + mpmath.ncdf(-shift - c * s))

        ends = sorted(
            {0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 9.0, min(float(shift / c), 9.0)}
        )
        return float(mpmath.quad(integrand, ends))


@pytest.mark.parametrize("n", [2, 3, 4, 8, 20, 60])
@pytest.mark.parametrize(("effect", "level"), [(0.1, 0.05), (1.0, 0.05), (1.7, 0.01), (4.0, 0.025)])
def test_power_is_the_integral(n: int, effect: float, level: float) -> None:
    expected = reference_power(effect * math.sqrt(n), n - 1, level)
    assert stats.power(effect, 1.0, n, alpha=level) == pytest.approx(expected, abs=1e-8)
    assert stats.power(-effect * 0.004, 0.004, n, alpha=3 * level, arms=3) == pytest.approx(expected, abs=1e-8)


# Multiples of the sd of a paired difference, two-sided 5 %, 80 % power.
@pytest.mark.parametrize(
    ("n", "multiple"), [(4, 2.13), (5, 1.68), (6, 1.44), (8, 1.16), (10, 1.00), (12, 0.89), (16, 0.75), (20, 0.66)]
)
def test_table_of_smallest_detectable_effects(n: int, multiple: float) -> None:
    assert stats.smallest_detectable(1.0, n) == pytest.approx(multiple, abs=0.006)
    assert stats.smallest_detectable(0.005, n) == pytest.approx(0.005 * multiple, abs=0.006 * 0.005)


@pytest.mark.parametrize("n", [2, 3, 7, 100, 1_000_000])
@pytest.mark.parametrize(("power", "arms"), [(0.8, 1), (0.8, 5), (0.06, 1), (0.999, 2)])
def test_smallest_detectable_inverts_power(n: int, power: float, arms: int) -> None:
    effect = stats.smallest_detectable(0.3, n, power=power, arms=arms)
    assert stats.power(effect, 0.3, n, arms=arms) == pytest.approx(power, abs=1e-9)


def test_power_at_its_ends() -> None:
    assert stats.power(0.0, 1.0, 5) == 0.05
    assert stats.power(0.0, 0.0, 5, arms=2) == 0.025
    assert stats.power(1e-9, 1.0, 5) == pytest.approx(0.05, abs=1e-8)
    assert stats.power(1e-9, 0.0, 5) == 1.0
    assert stats.power(1e300, 5e-324, 2) == 1.0
    far = [stats.power(x, 1.0, 3) for x in np.linspace(0.1, 60.0, 300)]
    assert (np.diff(far) >= -1e-9).all()
    assert max(far) <= 1 + 1e-9


def test_power_refuses_what_makes_no_sense() -> None:
    for bad in ((1.0, 1.0, 1), (1.0, -1.0, 5), (math.nan, 1.0, 5), (1.0, math.inf, 5)):
        with pytest.raises(BadInput):
            stats.power(*bad)
    for settings in (
        {"n": 1},
        {"sd": -1.0},
        {"sd": math.nan},
        {"arms": 0},
        {"power": 0.05},
        {"power": 1.0},
        {"alpha": 2.0},
    ):
        with pytest.raises(BadInput):
            stats.smallest_detectable(**{"sd": 1.0, "n": 5, **settings})  # type: ignore[arg-type]


# ratios


def test_ratio_is_the_t_interval_of_logarithms() -> None:
    ratios = np.array([0.74, 0.78, 0.71, 0.80])
    expected = scipy_stats.ttest_1samp(np.log(ratios), 0.0).confidence_interval(0.95)
    estimate, low, high = stats.ratio(ratios)
    assert estimate == pytest.approx(ratios.prod() ** 0.25)
    assert (low, high) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))
    assert stats.ratio(1 / ratios) == pytest.approx((1 / estimate, 1 / high, 1 / low))
    assert stats.ratio([2.0, 2.0]) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize("bad", [[1.0, 0.0], [1.0, -1.0], [1.0, math.inf], [1.0, math.nan], [1.0]])
def test_ratio_refuses_what_has_no_logarithm(bad: list[float]) -> None:
    with pytest.raises(BadInput):
        stats.ratio(bad)
