"""Taylor series against mpmath's numerical differentiation, which knows nothing of them."""

import mpmath
import pytest

from softgate.acts import get, names
from softgate.numerics import derivatives
from softgate.numerics.series import Series, SeriesContext

MP = mpmath.MPContext()
MP.prec = 400
CONTEXT = SeriesContext(MP)


@pytest.mark.parametrize("x", [-30.0, -9.0, -2.4, -0.3, 0.7, 1.6, 4.0, 25.0])
@pytest.mark.parametrize("name", names())
def test_series_agree_with_finite_differences(name, x):
    record = get(name)
    found = derivatives(record, x, 3, 120)
    for order, got in enumerate(found):
        want = MP.diff(lambda t: record.oracle(MP, t, **record.params), MP.mpf(x), order)
        # mpmath's own steps lose digits where tails are small against their neighbourhood.
        assert abs(MP.mpf(got) - want) <= MP.mpf(10) ** -15 * abs(want) + MP.mpf(10) ** -30


@pytest.mark.parametrize("function", ["exp", "expm1", "log1p", "sqrt", "tanh", "erfc"])
def test_every_function_has_its_taylor_coefficients(function):
    x = MP.mpf("0.37")
    got = getattr(CONTEXT, function)(Series([x, MP.mpf(1), MP.mpf(0), MP.mpf(0)])).c
    want = MP.taylor(getattr(MP, function), x, 3)
    assert all(abs(a - b) < MP.mpf(10) ** -60 for a, b in zip(got, want, strict=True))
    assert getattr(CONTEXT, function)(x) == getattr(MP, function)(x)


def test_arithmetic_is_that_of_polynomials():
    a, b = Series([MP.mpf(1), MP.mpf(2), MP.mpf(3)]), Series([MP.mpf(2), MP.mpf(-1), MP.mpf(4)])
    assert (a + b).c == [3, 1, 7]
    assert (a - b).c == [-1, 3, -1]
    assert (a * b).c == [2, 3, 8]
    assert ((a * b) / b).c == a.c
    assert (1 / (1 / a)).c == a.c
    assert (3 - a).c == [2, -2, -3]
    assert (2 * a + 1).c == [3, 4, 6]
    assert (a / 2).c == [0.5, 1, 1.5]
    assert (-a).c == [-1, -2, -3]
    assert abs(-a).c == a.c


def test_comparisons_look_at_the_point():
    a, b = Series([MP.mpf(1), MP.mpf(9)]), Series([MP.mpf(1), MP.mpf(-9)])
    assert a <= b
    assert a >= b
    assert not a < b
    assert not a > b
    assert a < 2
    assert a > 0.5


def test_far_tails_do_not_cancel():
    """1 - tanh^2 and e^x (1 - e^x / (1 + e^x)) would be zero here at any reasonable precision."""
    assert float(MP.log(derivatives(get("tanh"), 300.0, 1)[1])) == pytest.approx(
        -600 + float(MP.log(4)), rel=1e-12, abs=0
    )
    assert float(MP.log(derivatives(get("softplus"), 150.5, 2)[2])) == pytest.approx(-150.5, rel=1e-12, abs=0)


@pytest.mark.parametrize("x", [1e20, 1e160, 1e300])
def test_huge_arguments(x):
    assert CONTEXT.erfc(MP.mpf(-x)) == 2
    # log erfc(x) = -x^2 - log(x sqrt(pi)) - ..., compared through the exponent.
    exponent = MP.mag(CONTEXT.erfc(MP.mpf(x)))
    assert abs(exponent / (-(MP.mpf(x) ** 2) / MP.ln2) - 1) < 1e-12
    if x < 1e100:
        want = MP.exp(MP.mpf(x))
        assert abs(CONTEXT.exp(MP.mpf(x)) / want - 1) < MP.mpf(2) ** -300


def test_asymptotic_erfc_meets_mpmaths():
    for x in (1.1e9, 3.7e12):
        assert abs(CONTEXT.erfc(MP.mpf(x)) / MP.erfc(MP.mpf(x)) - 1) < MP.mpf(2) ** -300
