"""Statistics of paired comparisons: intervals, tests, equivalence, multiplicity, power; pure functions.

Differences are arm minus baseline, one a seed; lower is better. The functions behind the records (`analyse`, `holm`,
`judge`) take any number of studies at once, [..., n], so that simulations run the code that judges real ones.
"""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special
from scipy import stats as scipy_stats

from softgate.errors import BadInput

Array = npt.NDArray[np.float64]

MARGIN = 0.01  # nats/byte
ALPHA = 0.05
POWER = 0.8
# Differences beyond this are no losses, and their intervals would overflow.
_LARGEST = 1e300
_RESAMPLES = 9999
# The normal density beyond 9 is 1e-18: nothing at the accuracy of `power`.
_REACH = 9.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


class Analysis(NamedTuple):
    """t-tests of paired differences, a number a study: mean, sd, interval, p (two-sided), p_equivalence (TOST)."""

    mean: Array
    sd: Array
    low: Array
    high: Array
    p: Array
    p_equivalence: Array


class Verdicts(NamedTuple):
    """What follows for a family of arms: adjusted p-values and the verdict's word, [..., arms]."""

    p_holm: Array
    p_equivalence_holm: Array
    verdict: npt.NDArray[np.str_]


class _Result:
    """Three ways to show a flat record of numbers and words."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as builtins that JSON can hold; an interval is a list."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}  # type: ignore[call-overload]

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True, kw_only=True)
class Paired(_Result):
    """Paired differences of one arm, in the unit of the loss; `smallest_detectable` at 80 % power with this sd, n."""

    n: int
    mean: float
    sd: float
    interval: tuple[float, float]
    p: float
    p_equivalence: float
    smallest_detectable: float
    margin: float
    alpha: float

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.mean:+.4g}, {100 * (1 - self.alpha):g} % interval {low:+.4g} to {high:+.4g}, n = {self.n}, "
            f"p = {self.p:.2g}, p (equivalent within {self.margin:g}) = {self.p_equivalence:.2g}, "
            f"smallest detectable {self.smallest_detectable:.2g}"
        )


@dataclass(frozen=True, kw_only=True)
class Judged(_Result):
    """One arm of a family: p-values after Holm over the arms, and the verdict with its words.

    `verdict` is better, worse, equivalent or undetected; `smallest_detectable` is at the first Holm step.
    """

    p_holm: float
    p_equivalence_holm: float
    smallest_detectable: float
    verdict: str
    words: str

    def __str__(self) -> str:
        return f"{self.words}; p (Holm) = {self.p_holm:.2g}, p (equivalence, Holm) = {self.p_equivalence_holm:.2g}"


def analyse(differences: npt.ArrayLike, margin: float = MARGIN, alpha: float = ALPHA) -> Analysis:
    """t interval, t-test against 0 and TOST against +-margin of each row of paired differences.

    interval = mean +- t(1 - alpha/2, n - 1) sd / sqrt(n). p_equivalence is the larger of the two one-sided p-values.
    differences [..., n] -> fields [...], float64. Equal differences give a point and p-values of 0 or 1.

    >>> analyse([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]]).mean
    array([2., 0.])

    Raises BadInput for n < 2, numbers that are not finite (or beyond 1e300), a margin or alpha out of range.
    Source: Student's t; Schuirmann 1987, two one-sided tests.
    """
    _in_range(margin, alpha)
    d = np.asarray(differences, dtype=np.float64)
    n = d.shape[-1] if d.ndim else 0
    if n < 2:
        raise BadInput(f"{n} paired differences are too few; an interval needs at least 2 (5 or more to see anything)")
    if not (np.abs(d) <= _LARGEST).all():
        raise BadInput("a paired difference is NaN, infinite or beyond 1e300; leave out runs that diverged")
    # A power of two takes the largest difference to about 1, exactly, so that no square overflows or vanishes.
    _, exponent = np.frexp(np.abs(d).max(axis=-1))
    scaled = np.ldexp(d, -exponent[..., None])
    mean = scaled.mean(axis=-1)
    sd = scaled.std(axis=-1, ddof=1)
    # Rounding of the mean must not turn equal differences into a tiny spread.
    equal = (d == d[..., :1]).all(axis=-1)
    mean = np.where(equal, scaled[..., 0], mean)
    sd = np.where(equal, 0.0, sd)
    se = sd / math.sqrt(n)
    half = _hurdle(n - 1, alpha) * se
    with np.errstate(over="ignore"):  # a margin far above the differences may scale to infinity, which is right
        bound = np.ldexp(margin, -exponent)
    p = 2 * _lower_tail(-np.abs(mean), se, n - 1)
    p_equivalence = _lower_tail(np.abs(mean) - bound, se, n - 1)
    mean, sd, low, high = (np.ldexp(x, exponent) for x in (mean, sd, mean - half, mean + half))
    return Analysis(mean, sd, low, high, np.minimum(p, 1.0), p_equivalence)


def paired(differences: npt.ArrayLike, margin: float = MARGIN, alpha: float = ALPHA) -> Paired:
    """The headline statistics of one arm: see `analyse` for the formulas.

    differences [n], in the unit of the loss (nats/byte).

    >>> found = paired([-0.021, -0.017, -0.025, -0.019, -0.020])
    >>> round(found.mean, 4), [round(x, 4) for x in found.interval]
    (-0.0204, [-0.0241, -0.0167])

    Raises BadInput for n < 2, numbers that are not finite, an array that is not one-dimensional.
    """
    d = _one_study(differences)
    t = analyse(d, margin, alpha)
    mean, sd, low, high, p, p_equivalence = (float(x) for x in t)
    return Paired(
        n=d.size, mean=mean, sd=sd, interval=(low, high), p=p, p_equivalence=p_equivalence,
        smallest_detectable=smallest_detectable(sd, d.size, alpha), margin=margin, alpha=alpha,
    )  # fmt: skip


def bootstrap_interval(differences: npt.ArrayLike, alpha: float = ALPHA, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean, the same for the same numbers and seed.

    It assumes no normal differences, but is too narrow for few pairs; the t interval decides.
    differences [n] -> (low, high).

    >>> low, high = bootstrap_interval([-0.021, -0.017, -0.025, -0.019, -0.020])
    >>> -0.025 < low < -0.0204 < high < -0.017
    True

    Raises BadInput as `paired`. Source: Efron 1979, as scipy.stats.bootstrap has it.
    """
    d = _one_study(differences)
    mean, sd = (float(x) for x in analyse(d, alpha=alpha)[:2])
    if sd == 0.0:
        return mean, mean
    # On standardised numbers: the interval moves with them, and extreme ones cannot overflow.
    found = scipy_stats.bootstrap(
        ((d - mean) / sd,), np.mean, confidence_level=1 - alpha, n_resamples=_RESAMPLES, method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return mean + sd * float(found.low), mean + sd * float(found.high)


def holm(pvalues: npt.ArrayLike) -> Array:
    """Holm's adjusted p-values over the last axis: max over j <= i of min(1, (k - j + 1) p_(j)). [..., k] -> [..., k].

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])

    Raises BadInput for a p-value outside [0, 1]. Source: Holm 1979.
    """
    p = np.asarray(pvalues, dtype=np.float64)
    if not p.ndim or not ((p >= 0) & (p <= 1)).all():
        raise BadInput("Holm needs a list of p-values in [0, 1]; one of these is not")
    order = p.argsort(axis=-1)
    steps = np.arange(p.shape[-1], 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(np.take_along_axis(p, order, -1) * steps, axis=-1), 1.0)
    return np.take_along_axis(adjusted, order.argsort(axis=-1), -1)


def judge(arms: Sequence[npt.ArrayLike], margin: float = MARGIN, alpha: float = ALPHA) -> Verdicts:
    """The verdict on each arm of a family: Holm over the difference tests, and apart from them over the TOSTs.

    better or worse: the difference is significant, whatever its size; else equivalent: TOST is; else undetected.
    arms: k arrays [..., n], n may differ -> fields [..., k].

    >>> judge([[-0.021, -0.017, -0.025], [0.001, -0.002, 0.0005], [0.3, -0.2, 0.1]]).verdict.tolist()
    ['better', 'equivalent', 'undetected']

    Raises BadInput as `analyse`.
    """
    found = [analyse(d, margin, alpha) for d in arms]
    mean = np.stack([t.mean for t in found], axis=-1)
    p = holm(np.stack([t.p for t in found], axis=-1))
    p_equivalence = holm(np.stack([t.p_equivalence for t in found], axis=-1))
    verdict = np.select(
        [(p <= alpha) & (mean < 0), (p <= alpha) & (mean > 0), p_equivalence <= alpha],
        ["better", "worse", "equivalent"],
        "undetected",
    )
    return Verdicts(p, p_equivalence, verdict)


def family(
    differences_by_arm: Mapping[str, npt.ArrayLike],
    *,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    unit: str = "nats/byte",
) -> dict[str, Judged]:
    """Judge the arms of one study together; see `judge` for the rule. differences [n] by arm; `unit` is for the words.

    >>> judged = family({"gelu": [-0.0021, -0.0017, -0.0025, -0.0019], "silu": [0.02, -0.03, 0.01, -0.02]})
    >>> judged["gelu"].words
    'better, by less than the margin 0.01 nats/byte'
    >>> judged["silu"].words
    'no detectable difference (smallest detectable 0.065 nats/byte)'

    Raises BadInput as `paired`.
    """
    if not differences_by_arm:
        return {}
    arms = {arm: _one_study(d) for arm, d in differences_by_arm.items()}
    found = judge(list(arms.values()), margin, alpha)
    judged = {}
    for i, (arm, d) in enumerate(arms.items()):
        p, p_equivalence, verdict = (x[i].item() for x in found)
        least = smallest_detectable(float(analyse(d, margin, alpha).sd), d.size, alpha, arms=len(arms))
        inside = f"{margin:g} {unit}"
        words = {
            "equivalent": f"equivalent within {inside}",
            "undetected": f"no detectable difference (smallest detectable {least:.2g} {unit})",
        }.get(verdict, f"{verdict}, by less than the margin {inside}" if p_equivalence <= alpha else verdict)
        judged[arm] = Judged(
            p_holm=p, p_equivalence_holm=p_equivalence, smallest_detectable=least, verdict=verdict, words=words
        )
    return judged


def power(effect: float, sd: float, n: int, alpha: float = ALPHA, arms: int = 1) -> float:
    """Chance that a two-sided paired t-test at level alpha / arms (the first Holm step) sees a true mean difference.

    P(|Z + d| > c S), d = effect sqrt(n) / sd, c the t quantile, S^2 a chi-square over its n - 1 degrees of freedom:
    the integral over w > 0 of (phi(w - d) + phi(w + d)) P(S < w / c). Absolute error below 1e-8.
    effect and sd in the same unit.

    >>> round(power(1.0, 1.0, 10), 4)
    0.8031

    Raises BadInput for n < 2, a negative sd, alpha or arms out of range. Source: the definition of the noncentral t.
    """
    _in_range(MARGIN, alpha)
    if n < 2 or arms < 1 or not (math.isfinite(effect) and math.isfinite(sd) and sd >= 0):
        raise BadInput(f"power needs n >= 2, arms >= 1, finite effect and sd >= 0; got {n}, {arms}, {effect}, {sd}")
    if effect == 0.0:
        return alpha / arms
    shift = abs(effect) / sd * math.sqrt(n) if sd > 0 and abs(effect) / sd < _LARGEST else math.inf
    return _power(shift, n - 1, alpha / arms)


def smallest_detectable(sd: float, n: int, alpha: float = ALPHA, power: float = POWER, arms: int = 1) -> float:
    """The true difference that a study of n pairs detects with the given power at the first Holm step, alpha / arms.

    Proportional to `sd`, the standard deviation of a paired difference, and in its unit. The inverse of `power`.

    >>> round(smallest_detectable(1.0, 8), 2), round(smallest_detectable(0.005, 8, arms=2), 4)
    (1.16, 0.0067)

    Raises BadInput for n < 2, a negative sd, or a power not in (alpha / arms, 1).
    """
    _in_range(MARGIN, alpha)
    if n < 2 or arms < 1 or not (math.isfinite(sd) and sd >= 0):
        raise BadInput(f"the smallest detectable effect needs n >= 2, arms >= 1, finite sd >= 0; got {n}, {arms}, {sd}")
    if not alpha / arms < power < 1:
        raise BadInput(f"power {power} is not between alpha / arms = {alpha / arms:g} and 1; 0.8 is usual")
    return sd * _multiple(n, alpha / arms, power)


def ratio(ratios: npt.ArrayLike, alpha: float = ALPHA) -> tuple[float, float, float]:
    """Geometric mean of paired ratios with a t interval on their logarithms. [n] -> (estimate, low, high).

    >>> [round(x, 3) for x in ratio([0.5, 2.0, 1.0])]
    [1.0, 0.179, 5.595]

    Raises BadInput for n < 2 or a ratio that is not positive and finite.
    """
    r = _one_study(ratios)
    if not ((r > 0) & (r < math.inf)).all():
        raise BadInput("a ratio is not positive and finite; leave out runs that did not get there")
    t = analyse(np.log(r), alpha=alpha)
    return math.exp(t.mean), math.exp(t.low), math.exp(t.high)


def _lower_tail(above: Array, se: Array, df: int) -> Array:
    """P(T < above / se) of Student's t; where se is 0, 0 below zero and 1 from there on."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        tail = special.stdtr(df, above / se)
    return np.where(se > 0, tail, (above >= 0).astype(np.float64))


@functools.lru_cache(maxsize=4096)
def _multiple(n: int, level: float, power: float) -> float:
    """Smallest detectable effect in standard deviations."""
    # Beyond _far the power is 1 to the last digit, so the root is bracketed.
    shift = optimize.brentq(lambda x: _power(x, n - 1, level) - power, 0.0, _far(n - 1, level), xtol=1e-12)
    return float(shift) / math.sqrt(n)


def _power(shift: float, df: int, level: float) -> float:
    """P(|Z + shift| > c S), by Gauss-Legendre sums over panels that resolve both the normal and the chi."""
    if shift >= _far(df, level):
        return 1.0
    critical = _hurdle(df, level)
    start, end = max(0.0, shift - _REACH), shift + _REACH
    panels = math.ceil((end - start) * max(1.0, math.sqrt(2 * df) / critical))
    half = (end - start) / panels / 2
    w = (start + half * (2 * np.arange(panels) + 1))[:, None] + half * _NODES  # [panels, nodes]
    normal = np.exp(-((w - shift) ** 2) / 2) + np.exp(-((w + shift) ** 2) / 2)
    chi = special.gammainc(df / 2, df / 2 * (w / critical) ** 2)
    return float((normal * chi @ _WEIGHTS).sum() * half / math.sqrt(2 * math.pi))


def _far(df: int, level: float) -> float:
    """A shift that is always seen: ten times the hurdle, where S > 10 has no weight, and ten for the normal."""
    return 10.0 * _hurdle(df, level) + 10.0


def _hurdle(df: int, level: float) -> float:
    """The two-sided t quantile; from the lower tail, which keeps its digits at small levels."""
    return -float(special.stdtrit(df, level / 2))


def _one_study(differences: npt.ArrayLike) -> Array:
    try:
        d = np.asarray(differences, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("paired differences are not numbers; give one number a seed") from None
    if d.ndim != 1:
        raise BadInput(f"paired differences have shape {list(d.shape)}; give one number a seed, [n]")
    return d


def _in_range(margin: float, alpha: float) -> None:
    if not (math.isfinite(margin) and margin > 0):
        raise BadInput(f"margin {margin} is not a positive number; 0.01 nats/byte is usual")
    if not 0 < alpha < 1:
        raise BadInput(f"alpha {alpha} is not between 0 and 1; 0.05 is usual")
