"""Shape facts to all the digits they are known to, and where the functions leave the range of a format.

The figures were computed beforehand in mpmath at 30 to 50 digits, apart from this code.
"""

import mpmath
import pytest

from softgate.acts import get
from softgate.numerics import derivatives


def exact(text):
    with mpmath.workprec(200):
        return mpmath.mpf(text)


def at(name, x, **params):
    return derivatives(get(name), exact(x), 2, 100, **params)


def last_digit(text):
    """One unit of the last digit printed."""
    mantissa, _, power = text.partition("e")
    return mpmath.mpf(10) ** (int(power or 0) - len(mantissa.partition(".")[2]))


def assert_printed(got, text):
    with mpmath.workprec(200):
        assert abs(got - exact(text)) <= last_digit(text), f"{mpmath.nstr(got, 25)} is not {text}"


# name, minimum, argmin, largest slope, where. The figures of the tanh form are those of the decimal 0.044715 and the
# function has the nearest float, so that 17 digits agree; for the sigmoid form the decimal 1.702 can be handed over.
FACTS = [
    ("gelu", "-0.16997120747990366169", "-0.75179152469356445746", "1.1289041451851547863", "1.4142135623730950488"),
    ("silu", "-0.27846454276107379511", "-1.2784645427610737951", "1.099839320128866917", "2.3993572805154676678"),
    ("gelu_tanh", "-0.17004075057125405", "-0.75246142207101626", "1.12899306865877177", "1.4185040087908284"),
    ("gelu_sigmoid", "-0.16361018963635358115", "-0.7511542554412889513", "1.0998393201288669", "1.4097281319127307"),
    ("mish", "-0.30884341301725040663", "-1.1924312145154952121", "1.0884981612517278612", "1.4905711794854285"),
]


@pytest.mark.parametrize(("name", "minimum", "argmin", "steepest", "where"), FACTS)
def test_minimum_and_steepest_slope(name, minimum, argmin, steepest, where):
    decimal = {"beta": exact("1.702")} if name == "gelu_sigmoid" else {}
    value, slope, bend = at(name, argmin, **decimal)
    assert_printed(value, minimum)
    # Level to the digits of the argmin.
    assert abs(slope) <= bend * last_digit(argmin)
    assert bend > 0
    _, slope, bend = at(name, where, **decimal)
    assert_printed(slope, steepest)
    assert abs(bend) <= 2 * last_digit(where)
    record = get(name)
    for stated, text in ((record.minimum, minimum), (record.argmin, argmin), (record.lipschitz, steepest)):
        assert stated == pytest.approx(float(text), rel=3e-16, abs=0)


def test_silu_meets_its_minimum_one_below_it():
    assert get("silu").argmin == pytest.approx(get("silu").minimum - 1, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    ("name", "constant"),
    [("relu", 1.0), ("leaky_relu", 1.0), ("elu", 1.0), ("softplus", 1.0), ("tanh", 1.0), ("selu", 1.7580993408473769)],
)
def test_lipschitz_constants_of_the_rest(name, constant):
    assert get(name).lipschitz == pytest.approx(constant, rel=3e-16, abs=0)


def test_gelu_curvature():
    assert_printed(at("gelu", "0")[1], "0.5")
    assert_printed(at("gelu", "0")[2], "0.79788456080286535588")
    assert_printed(at("gelu", "2")[2], "-0.1079819330263761039")
    assert_printed(at("gelu", "-1.4142135623730950488")[1], "-0.12890414518515478634")
    assert_printed(at("silu", "0")[2], "0.5")


@pytest.mark.parametrize(
    ("one", "other", "order", "where", "gap"),
    [
        ("gelu_tanh", "gelu", 0, "2.6989413863772701", "4.7323552068728488e-4"),
        ("gelu_tanh", "gelu", 0, "1.36449772", "-2.3367e-4"),
        ("gelu_tanh", "gelu", 1, "2.0186557597718366", "8.6845183498591387e-4"),
        ("gelu_sigmoid", "gelu", 0, "-2.2703977371966102", "-2.0334872209239230e-2"),
        ("gelu_sigmoid", "gelu", 0, "0.75563275", "6.3615e-3"),
        ("silu", "gelu", 0, "-1.9654689640930993", "-0.19300198798000964"),
        ("silu", "relu", 0, "-1.2784645", "-0.278464542761073"),
        ("gelu", "relu", 0, "0.7517915", "-0.169971207479903"),
    ],
)
def test_gaps_between_variants(one, other, order, where, gap):
    difference = at(one, where)[order] - at(other, where)[order]
    # The tanh and sigmoid forms take the floats nearest to 0.044715 and 1.702, the figures the decimals.
    with mpmath.workprec(200):
        assert abs(difference - exact(gap)) <= max(last_digit(gap), mpmath.mpf(10) ** -17)


# Below these points the function is smaller than the power of two.
CROSSINGS = [
    ("gelu", 0, "-13.14624671786136", -126),
    ("gelu", 0, "-14.30770175018849", -149),
    ("gelu", 0, "-37.6159", -1022),
    ("gelu", 1, "-13.34188232113651", -126),
    ("gelu", 1, "-14.49337320209827", -149),
    ("silu", 0, "-91.85677532459548", -126),
    ("silu", 0, "-107.9606971490361", -149),
    ("silu", 1, "-91.84570729379791", -126),
    ("silu", 0, "-714.9687", -1022),
]


@pytest.mark.parametrize(("name", "order", "where", "power"), CROSSINGS)
def test_where_the_tail_leaves_a_format(name, order, where, power):
    unit = last_digit(where)
    outside, inside = (abs(derivatives(get(name), exact(where) + s * unit, order)[order]) for s in (-1, 1))
    assert outside < mpmath.ldexp(1, power) < inside
