"""Every record through every promise: what its fields say is measured against the mpmath oracle.

A promise is a function of a record that raises AssertionError when the record breaks it. The parameter lists come from
the registry, the table of fields from the dataclasses, and the tables of forgeries show that every promise can fail.
"""

import copy
import dataclasses
import functools
import importlib
import itertools
import json
import math
import pkgutil

import mpmath
import pytest
import torch

import softgate.acts as acts
from softgate import numerics
from softgate.acts import Activation, GatedActivation
from softgate.acts.registry import GATED, PLAIN
from softgate.numerics import derivatives, gated_derivatives, reference

INF, NAN = math.inf, math.nan
F64, F32 = torch.float64, torch.float32
PROMISES = {}
GATED_PROMISES = {}


def promise(*fields, table=PROMISES):
    """Enter a check of those record fields into the table of promises."""

    def enter(check):
        table[check.__name__] = (check, frozenset(fields))
        return check

    return enter


gated_promise = functools.partial(promise, table=GATED_PROMISES)


# --- the truth at stratified points -----------------------------------------------------------------------------------


def neighbours(point, dtype):
    at = torch.tensor(point, dtype=dtype)
    ends = torch.tensor(INF, dtype=dtype)
    return [float(at), float(torch.nextafter(at, ends)), float(torch.nextafter(at, -ends))]


def stratified(check_points, dtype):
    """Special points and their neighbours, all magnitudes from subnormal to 1e30, the body, the exponential tails."""
    limits = torch.finfo(dtype)
    near = [n for p in {0.0, 1.0, -1.0, *check_points} for n in neighbours(p, dtype)]
    sizes = [10.0**k for k in range(-30, 31)] + [limits.tiny, limits.tiny * limits.eps, limits.max, limits.max / 4]
    body = torch.linspace(-12.0, 12.0, 121, dtype=F64).tolist()
    tail = [-13.7, -14.2, -17.3, -22.9, -26.0, -31.0, -36.7, -38.2, 33.3, -64.1, -87.2, -88.9, -91.1, -103.2]
    far = [-150.5, -300.7, -500.1, -690.3, -708.9, -712.4, -740.9, -800.0, -1480.0, 150.5, 720.3]
    raw = [*near, *sizes, *(-s for s in sizes), *body, *tail, *far, -0.0]
    return torch.tensor(sorted(set(raw)), dtype=F64).to(dtype).unique().double()


@functools.cache
def _truth(oracle, params, check_points, dtype):
    stand_in = type("StandIn", (), {"oracle": staticmethod(oracle), "params": dict(params), "name": oracle.__name__})()
    x = stratified(check_points, dtype)
    rows = [derivatives(stand_in, p, 3) for p in x.tolist()]
    moved = [[0.0] * len(rows) for _ in range(3)]
    for name, p in params:
        shifted = [derivatives(stand_in, q, 2, 80, **{name: p * (1 + 2.0**-20)}) for q in x.tolist()]
        for order, row in enumerate(moved):
            for i, (new, old) in enumerate(zip(shifted, rows, strict=True)):
                row[i] += abs(numerics.round_to((new[order] - old[order]) * 2**20, F64))
    exact = [torch.tensor([numerics.round_to(r[k], F64) for r in rows], dtype=F64) for k in range(4)]
    return x, exact, [torch.tensor(m, dtype=F64) for m in moved]


def truth(record, dtype=F64):
    """Points, [f, f', f'', f'''] there in float64, and for each order the sum of |p df/dp| over the parameters."""
    return _truth(record.oracle, tuple(record.params.items()), record.check_points, dtype)


def backward_error(record, order, dtype, units):
    """The change of the derivative that a relative change of `units` eps in the point and the parameters makes."""
    x, exact, moved = truth(record, dtype)
    eps = torch.finfo(dtype).eps * units
    # torch's sigmoid stops where exp(-x) overflows: there nothing smaller than about 1e3 normal numbers can come out,
    # times x and the inner derivatives in the higher orders.
    floor = torch.finfo(dtype).tiny * (2.0**10, 2.0**12, 2.0**20)[order]
    return (exact[order].abs() * eps) + (x * (exact[order + 1] * eps)).abs() + moved[order] * eps + floor


def assert_close(record, function, order, dtype, units, also=0.0):
    x, exact, _ = truth(record, dtype)
    got = function(x.to(dtype)).double()
    want = exact[order].to(dtype).double()
    wrong = ~((got - want).abs() <= backward_error(record, order, dtype, units) + also * want.abs()) & (got != want)
    # At a kink the oracle's side is arbitrary; test_slope_at_kinks compares with torch.
    if order:
        for kink in record.kinks:
            wrong &= x != kink
    worst = [(p, g, w) for p, g, w in zip(x[wrong].tolist(), got[wrong].tolist(), want[wrong].tolist(), strict=True)]
    assert not worst, f"{record.name}, order {order}, {dtype}: {len(worst)} points are off: {worst[:4]}"


# --- promises of plain records ----------------------------------------------------------------------------------------


@promise("value", "oracle", "params")
def value_is_exact(record):
    assert_close(record, record.value, 0, F64, 6)
    assert_close(record, record.value, 0, F32, 8)


@promise("slope", "params")
def slope_is_exact(record):
    assert_close(record, record.slope, 1, F64, 8)
    assert_close(record, record.slope, 1, F32, 10)


@promise("curvature", "params")
def curvature_is_exact(record):
    assert_close(record, record.curvature, 2, F64, 10)
    assert_close(record, record.curvature, 2, F32, 12)


@promise("value", "slope", "curvature")
def sixteen_bits_round_once(record):
    for dtype, function_order in itertools.product((torch.bfloat16, torch.float16), (0, 1)):
        function = (record.value, record.slope)[function_order]
        x = torch.cat([torch.linspace(-24, 12, 145), torch.tensor([1e-4, -1e-4, 3e-7, -3e-7, -0.0, 300.0, -300.0])])
        x = x.to(dtype).unique()
        x = x[~torch.isin(x.double(), torch.tensor(record.kinks, dtype=F64))] if function_order else x
        exact = [reference(record, x, k) for k in (function_order, function_order + 1)]
        got = function(x)
        assert got.dtype == dtype
        # What float32 inside may add to half a unit.
        inner = (exact[0].abs() + (x.double() * exact[1]).abs()) * 8 * torch.finfo(F32).eps
        inner = (inner + 2.0**12 * torch.finfo(F32).tiny) / numerics.unit(exact[0], dtype)
        over = (numerics.distance(got, exact[0]) > 0.501 + inner) & (got != exact[0].to(dtype))
        assert not over.any(), f"{record.name}, {dtype}: {x[over].tolist()[:4]} {got[over].tolist()[:4]}"


@promise("value", "slope", "curvature", "limits", "slope_limits", "domain")
def infinities_give_limits(record):
    ends = [-INF, INF]
    assert record.domain == (-INF, INF)
    assert reference(record, ends, 0).tolist() == list(record.limits)
    assert reference(record, ends, 1).tolist() == list(record.slope_limits)
    for dtype in (F64, F32, torch.bfloat16, torch.float16):
        x = torch.tensor(ends, dtype=dtype)
        for order, function in enumerate((record.value, record.slope, record.curvature)):
            want = reference(record, ends, order, dtype)
            got = function(x)
            # float32 inside: torch adds its own unit to a limit that is not a simple number.
            bound = 1 if dtype in (F64, F32) else 0
            assert (numerics.distance(got, want) <= bound).all(), (record.name, order, dtype, got, want)


@promise("value", "slope", "curvature")
def nan_stays_nan(record):
    for dtype in (F64, F32, torch.bfloat16, torch.float16):
        x = torch.tensor([1.0, NAN, -1.0] * 11, dtype=dtype)
        for order, function in enumerate((record.value, record.slope, record.curvature)):
            got = function(x).isnan()
            expected = x.isnan() if record.name != "identity" or order == 0 else torch.zeros_like(got)
            assert torch.equal(got, expected), (record.name, order, dtype)


@promise("value", "slope", "curvature")
def shape_layout_and_dtype_are_kept(record):
    base = torch.linspace(-5, 5, 96, dtype=F64).reshape(4, 6, 4)
    for dtype in (F64, F32, torch.bfloat16, torch.float16):
        x = base.to(dtype)
        layouts = (
            x.transpose(0, 2),
            x[..., ::2],
            x[1:, 2:5],
            x[0, 0, 0],
            x[:0],
            x.chunk(2, -1)[1],
            x[:, :1].expand(4, 6, 4),
        )
        for function, y in itertools.product((record.value, record.slope, record.curvature), layouts):
            before = y.clone()
            got = function(y)
            assert got.shape == y.shape
            assert got.dtype == dtype
            assert torch.equal(y, before), f"{record.name} writes into its argument"
            torch.testing.assert_close(got, function(y.contiguous()), rtol=4 * torch.finfo(dtype).eps, atol=0)


@promise("value", "slope")
def autograd_of_value_is_slope(record):
    x, exact, _ = truth(record)
    keep = torch.ones_like(x, dtype=torch.bool)
    for kink in record.kinks:
        keep &= (x - kink).abs() > 1e-12
    leaf = x[keep].clone().requires_grad_()
    value = record.value(leaf)
    (grad,) = torch.autograd.grad(value, leaf, torch.ones_like(value))
    # torch differentiates 1 - sigmoid and 1 - tanh^2, which cancel: times x, to which 1e-13 leaves room up to 40.
    wrong = ~((grad - exact[1][keep]).abs() <= 1e-13 + 1e-13 * exact[1][keep].abs()) & (grad != exact[1][keep])
    assert not wrong.any(), (record.name, leaf[wrong].tolist()[:5], grad[wrong].tolist()[:5])


@promise("slope", "curvature")
def autograd_of_slope_is_curvature(record):
    leaf = torch.linspace(-12, 12, 401, dtype=F64).add_(1 / 512).requires_grad_()
    slope = record.slope(leaf) + 0 * leaf
    (grad,) = torch.autograd.grad(slope, leaf, torch.ones_like(slope))
    torch.testing.assert_close(grad, record.curvature(leaf.detach()), rtol=1e-11, atol=1e-13)


@promise("params", "learnable")
def learnable_parameters_take_gradients(record):
    points = torch.tensor([-3.0, -0.5, 0.25, 2.0], dtype=F64)
    assert set(record.learnable) <= set(record.params)
    for name in record.learnable:
        weight = torch.tensor([record.params[name]], dtype=F64, requires_grad=True)
        value = record.value(points, **{name: weight})
        assert torch.equal(value.detach(), record.value(points))
        assert torch.equal(record.slope(points, **{name: weight}).detach(), record.slope(points))
        jacobian = torch.stack([torch.autograd.grad(v, weight, retain_graph=True)[0] for v in value]).squeeze(1)
        step = 2.0**-16
        up, down = (reference(record, points, **{name: record.params[name] + s * step}) for s in (1, -1))
        torch.testing.assert_close(jacobian, (up - down) / (2 * step), rtol=1e-9, atol=1e-9)


@promise("params")
def parameters_are_the_defaults_and_are_heard(record):
    x = torch.linspace(-4, 4, 41, dtype=F64)
    for name, default in record.params.items():
        changed = {name: default * 1.25 + 0.125}
        for order, function in enumerate((record.value, record.slope, record.curvature)):
            assert torch.equal(function(x), function(x, **{name: default}))
            got, want = function(x, **changed), reference(record, x, order, **changed)
            off_kink = (
                ~torch.isin(x, torch.tensor(record.kinks, dtype=F64)) if order else torch.ones_like(x, dtype=torch.bool)
            )
            torch.testing.assert_close(got[off_kink], want[off_kink], rtol=1e-12, atol=1e-14)
        deaf = torch.equal(record.value(x, **changed), record.value(x))
        # torch's softplus has a threshold; ours needs none, so it must change nothing.
        assert deaf == (name == "threshold"), f"{record.name}: {name} has no effect"


@promise("minimum", "argmin")
def minimum_is_true_and_least(record):
    x, exact, _ = truth(record)
    if record.minimum is None:
        body = x[x.abs() <= 30].tolist()
        bottom = min(reference(record, [-INF, INF]).tolist())
        assert all(derivatives(record, p, 0)[0] > bottom for p in body), f"{record.name} attains its infimum"
        return
    assert reference(record, [record.argmin]).item() == record.minimum
    assert exact[0].min() >= record.minimum
    assert record.value(torch.linspace(-50, 50, 100_001, dtype=F64)).min() >= record.minimum - 4e-16
    if record.argmin not in record.kinks:
        _, slope, bend = derivatives(record, record.argmin)
        assert abs(slope) <= 2.0**-52 * abs(record.argmin * bend), f"{record.name} is not level at argmin"
        assert bend > 0


@promise("lipschitz")
def lipschitz_constant_is_tight(record):
    _, exact, _ = truth(record)
    steepest = max(exact[1].abs().max().item(), reference(record, [-INF, INF], 1).abs().max().item())
    if record.lipschitz is None:
        assert steepest > 1e20
        return
    assert steepest <= record.lipschitz, f"{record.name}: slope {steepest!r}"
    assert steepest >= math.nextafter(record.lipschitz, 0.0), f"{record.name}: no slope beyond {steepest!r}"
    dense = record.slope(torch.linspace(-60, 60, 200_001, dtype=F64)).abs().max().item()
    assert dense <= record.lipschitz * (1 + 8 * 2.0**-52)


@promise("monotone")
def monotone_or_not(record):
    _, exact, _ = truth(record)
    assert record.monotone == bool((exact[1] >= 0).all())
    assert (exact[1] > 0).any()


@promise("kinks", "smoothness")
def kinks_are_real(record):
    # mpf, because the sides lie closer than a float can: GELU clipped at 10 bends at 10 + 8e-23.
    side = mpmath.mpf(2) ** -70
    jumps = []
    for kink in record.kinks:
        with mpmath.workprec(200):
            right, left = (derivatives(record, mpmath.mpf(kink) + s * side, 2, 200) for s in (1, -1))
        jumps.append([float(abs(a - b)) for a, b in zip(right, left, strict=True)])
    for order in range(3):
        sizes = [j[order] for j in jumps]
        if order <= record.smoothness:
            assert all(s < 1e-15 for s in sizes), f"{record.name}: derivative {order} jumps by {sizes}"
        elif order == record.smoothness + 1:
            assert max(sizes) > 1e-3, f"{record.name}: derivative {order} does not jump"
    assert all(max(j[1:]) > 1e-3 for j in jumps), f"{record.name}: a kink is none"


@promise("kinks", "smoothness")
def kinks_are_complete(record):
    step = 2.0**-12
    grid = torch.arange(-12, 12, step, dtype=F64) + step / 3
    for function in (record.slope, record.curvature):
        y = function(grid)
        change = (y[1:] - y[:-1]).abs()
        # No third derivative here exceeds 50 where it exists.
        places = [
            k for k in grid[:-1][change > 50 * step].tolist() if not any(k <= z <= k + step for z in record.kinks)
        ]
        assert not places, f"{record.name}: unlisted jumps near {places[:3]}"


@promise("zeros")
def zero_set_is_exact(record):
    x, exact, _ = truth(record)
    inside = torch.zeros_like(x, dtype=torch.bool)
    for lo, hi in record.zeros:
        if lo == hi and derivatives(record, lo, 0)[0] != 0:
            # Irrational: the sign changes between the neighbours of its float.
            around = reference(record, [math.nextafter(lo, -INF), math.nextafter(lo, INF)])
            assert around.prod() < 0, f"{record.name}: no zero at {lo}"
            continue
        inside |= (x >= lo) & (x <= hi)
        assert any((x >= lo) & (x <= hi)), f"{record.name}: no point in {lo, hi}"
    # exact is rounded, but the oracle is not: underflow is no zero.
    for p, rounded, zero in zip(x.tolist(), exact[0].tolist(), inside.tolist(), strict=True):
        vanishes = rounded == 0 and (zero or p == 0 or abs(p) < 700) and derivatives(record, p, 0)[0] == 0
        assert vanishes == zero, f"{record.name}: {p} has value {rounded!r}"


@promise("self_gated")
def self_gated_or_not(record):
    x, exact, _ = truth(record)
    x, f = x[x != 0], exact[0][x != 0]
    gate = f / x
    open_and_shut = reference(record, [-INF]).item() == 0 and gate[x == 1e30].item() == 1
    bounded = bool(((gate >= 0) & (gate <= 1)).all())
    assert record.self_gated == (open_and_shut and bounded and reference(record, [0.0]).item() == 0)


VOCABULARY = {
    "pi": mpmath.pi,
    "max": max,
    "min": min,
    **{name: getattr(mpmath, name) for name in ("exp", "log", "tanh", "sqrt", "erf")},
    "Phi": mpmath.ncdf,
    "sigmoid": lambda v: 1 / (1 + mpmath.exp(-v)),
}


def evaluated(formula, **values):
    scope = {**VOCABULARY, **{k: mpmath.mpf(v) for k, v in values.items()}}
    return eval(formula.replace("^", "**"), {"__builtins__": {}}, scope)


@promise("formula", "params")
def formula_evaluates_to_value(record):
    points = [p for p in (*record.check_points, -11.0, -2.7, -0.3, 0.4, 3.6, 10.5) if abs(p) < 50]
    with mpmath.workprec(3000):
        for p in points:
            by_text = evaluated(record.formula, x=p, **record.params)
            by_oracle = derivatives(record, p, 0, 100)[0]
            assert abs(by_text - by_oracle) <= 1e-25 * abs(by_oracle), f"{record.name}: the formula differs at {p}"


@promise("check_points", "kinks", "argmin")
def check_points_hold_what_matters(record):
    matters = {*record.kinks, *(lo for lo, hi in record.zeros if lo == hi)}
    matters |= set() if record.argmin is None else {record.argmin}
    assert matters <= set(record.check_points)
    assert min(record.check_points) < 0 < max(record.check_points)
    for turn in sign_changes(record):
        assert any(abs(turn - p) < 0.01 for p in record.check_points), f"{record.name}: nothing near {turn}"


def sign_changes(record):
    """Where f, f' or f'' changes sign, on a grid of 2^-8."""
    grid = torch.arange(-8, 8, 2.0**-8, dtype=F64) + 2.0**-10
    for function in (record.value, record.slope, record.curvature):
        y = function(grid).sign()
        yield from grid[1:][y[1:] * y[:-1] < 0].tolist()


@promise("name", "aliases", table=PROMISES)
def names_lead_here(record):
    assert acts.get(record.name) is acts.get(record.name)
    for label in (record.name, *record.aliases):
        assert acts.get(label).name == record.name
        assert label == record.name or acts.aliases()[label] == record.name
    assert record.name in acts.names()


@promise("title", "latex", "reference")
def record_describes_itself(record):
    assert_describes_itself(record)


def assert_describes_itself(record):
    document = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    described = {f.name for f in dataclasses.fields(record)} - {"value", "slope", "curvature", "oracle"}
    assert set(document) == described | {"gated", "reasons"}
    for place in document["reasons"]:
        here = document
        for part in place.split("."):
            here = here[int(part)] if isinstance(here, list) else here[part]
        assert here is None
    assert record.latex.count("{") == record.latex.count("}")
    assert record.latex.count(r"\begin") == record.latex.count(r"\end")
    assert record.latex.count(r"\left") == record.latex.count(r"\right")
    assert len(record.reference) > 20
    assert record.title in str(record)
    assert record.formula in str(record)
    assert record._repr_html_().startswith("<table>")


# --- promises of gated records ----------------------------------------------------------------------------------------


@functools.cache
def pairs(name):
    g = [-700.0, -20.0, -7.0, -2.5, -0.75, -1e-9, 0.0, 1e-20, 0.5, 1.5, *neighbours(7.0, F64), 30.0, 1e10]
    u = [-1e10, *neighbours(-7.0, F64), -1.0, -0.3, 0.0, 1e-12, 2.0, *neighbours(7.0, F64), 50.0]
    gate, up = (torch.tensor(v, dtype=F64) for v in zip(*itertools.product(g, u), strict=True))
    exact = [gated_derivatives(acts.get(name), a, b) for a, b in zip(gate.tolist(), up.tolist(), strict=True)]
    keys = exact[0]
    return gate, up, {k: torch.tensor([numerics.round_to(e[k], F64) for e in exact], dtype=F64) for k in keys}


def assert_gated(record, got, key, along):
    """`along` are the partial derivatives of `key`, for the backward error in gate and in up."""
    gate, up, exact = pairs(record.name)
    want = exact[key]
    scale = want.abs() + sum((v * exact[k]).abs() for v, k in zip((gate, up), along, strict=False) if k)
    ok = ((got - want).abs() <= 10 * 2.0**-52 * scale + 1e-300) | (got == want)
    for kink in record.gate.kinks:
        ok |= (gate == kink) & (key != "value")
    assert ok.all(), (record.name, key, gate[~ok].tolist()[:4], up[~ok].tolist()[:4], got[~ok].tolist()[:4])


@gated_promise("gate", "gate_params", "gate_max", "up_limit", "offset")
def gated_value_is_exact(record):
    gate, up, _ = pairs(record.name)
    assert_gated(record, record.value(gate, up), "value", ("gate", "up"))


@gated_promise("gate", "gate_max", "up_limit", "offset")
def gated_slopes_are_exact(record):
    gate, up, _ = pairs(record.name)
    by_gate, by_up = record.slopes(gate, up)
    assert_gated(record, by_gate, "gate", ("gate_gate", "gate_up"))
    assert_gated(record, by_up, "up", ("gate_up", None))


@gated_promise("gate", "gate_max", "up_limit", "offset")
def gated_curvatures_are_exact(record):
    gate, up, exact = pairs(record.name)
    twice, mixed, rest = record.curvatures(gate, up)
    torch.testing.assert_close(rest, exact["up_up"], rtol=0, atol=0)
    ordinary = ~torch.isin(gate, torch.tensor(record.gate.kinks, dtype=F64))
    for got, key in ((twice, "gate_gate"), (mixed, "gate_up")):
        torch.testing.assert_close(got[ordinary], exact[key][ordinary], rtol=1e-12, atol=1e-14)


@gated_promise("gate", "gate_max", "up_limit")
def gated_autograd_agrees(record):
    gate, up, _ = pairs(record.name)
    # torch differentiates sigmoid as s (1 - s), which cancels in the far tail.
    body = (gate.abs() <= 8) & (up.abs() <= 60)
    gate, up = gate[body].clone().requires_grad_(), up[body].clone().requires_grad_()
    value = record.value(gate, up)
    grads = torch.autograd.grad(value, (gate, up), torch.ones_like(value))
    for got, want in zip(grads, record.slopes(gate.detach(), up.detach()), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


@gated_promise("formula")
def gated_formula_evaluates_to_value(record):
    with mpmath.workprec(400):
        for g, u in itertools.product((-9.0, -1.3, 0.2, 3.0, 8.0), (-8.0, -0.4, 1.0, 9.0)):
            by_text = evaluated(record.formula, gate=g, up=u)
            by_oracle = gated_derivatives(record, g, u, 100)["value"]
            assert abs(by_text - by_oracle) <= 1e-25 * abs(by_oracle), f"{record.name}: the formula differs at {g, u}"


@gated_promise("order", "offset", "gate_max", "up_limit")
def gated_parts_are_the_documented_ones(record):
    documented = (7.0, 7.0, 1.0, "interleaved") if record.name == "swiglu_oai" else (None, None, 0.0, "gate_first")
    assert (record.gate_max, record.up_limit, record.offset, record.order) == documented


@gated_promise("gate")
def gated_nan_and_dtype(record):
    for dtype in (F64, F32, torch.bfloat16, torch.float16):
        gate = torch.tensor([NAN, 1.0, 1.0], dtype=dtype)
        up = torch.tensor([1.0, NAN, 1.0], dtype=dtype)
        results = (record.value(gate, up), *record.slopes(gate, up), *record.curvatures(gate, up))
        assert all(r.dtype == dtype and r.shape == gate.shape for r in results)
        value, by_gate, by_up = results[:3]
        assert value.isnan().tolist() == [True, True, False]
        # The bilinear gate is the identity, and a product is linear in up: those slopes do not see the NaN.
        assert by_gate.isnan().tolist() == [record.gate.name != "identity", True, False]
        assert by_up.isnan().tolist() == [True, record.up_limit is not None, False]


@gated_promise("name", "aliases")
def gated_names_lead_here(record):
    assert all(acts.get(label).name == record.name for label in (record.name, *record.aliases))
    assert record.name in acts.names(gated=True)


@gated_promise("title", "latex", "reference")
def gated_record_describes_itself(record):
    assert_describes_itself(record)


# --- every record through every promise -------------------------------------------------------------------------------

CASES = [(name, record.name) for name in PROMISES for record in PLAIN]
GATED_CASES = [(name, record.name) for name in GATED_PROMISES for record in GATED]


@pytest.mark.parametrize(("check", "name"), CASES)
def test_plain_record_keeps_promise(check, name):
    PROMISES[check][0](acts.get(name))


@pytest.mark.parametrize(("check", "name"), GATED_CASES)
def test_gated_record_keeps_promise(check, name):
    GATED_PROMISES[check][0](acts.get(name))


def parametrised(test):
    (mark,) = test.pytestmark
    return set(mark.args[1])


def test_nothing_registered_goes_untested():
    assert parametrised(test_plain_record_keeps_promise) == set(itertools.product(PROMISES, acts.names()))
    assert parametrised(test_gated_record_keeps_promise) == set(
        itertools.product(GATED_PROMISES, acts.names(gated=True))
    )


def records_defined():
    """Every record that any module of softgate.acts holds, registered or not."""
    for module in pkgutil.iter_modules(acts.__path__, "softgate.acts."):
        for thing in vars(importlib.import_module(module.name)).values():
            if isinstance(thing, Activation | GatedActivation):
                yield thing.name


def test_no_record_is_left_unregistered():
    assert set(records_defined()) == {*acts.names(), *acts.names(gated=True)}


@pytest.mark.parametrize(("kind", "table"), [(Activation, PROMISES), (GatedActivation, GATED_PROMISES)])
def test_every_field_is_promised_something(kind, table):
    covered = frozenset().union(*(fields for _, fields in table.values()))
    assert covered == {field.name for field in dataclasses.fields(kind)}


# --- every promise can fail -------------------------------------------------------------------------------------------


def forged(name, /, **changes):
    """A registered record with fields changed behind the back of its own checks."""
    record = copy.copy(acts.get(name))
    for field, value in changes.items():
        assert hasattr(record, field)
        object.__setattr__(record, field, value)
    return record


def scaled(function, factor):
    return lambda x, **params: function(x, **params) * factor


def of(name):
    return acts.get(name)


def deaf_weight(x, weight=0.25):
    return torch.where(x > 0, x, x * torch.as_tensor(weight).detach()) + 0 * weight


def softplus_with_threshold(x, beta=1.0, threshold=20.0):
    return torch.nn.functional.softplus(x, beta, threshold - 23)


SHIFTED = "(1 + erf((x - 0.707107) / (sigma * sqrt(2)))) / 2"
AT_127 = acts.get("silu").value(torch.tensor(-1.27, dtype=F64)).item()

FORGERIES = [
    ("value_is_exact", "gelu", {"value": scaled(of("gelu").value, -1.0)}),
    ("value_is_exact", "gelu", {"value": torch.nn.functional.gelu}),
    ("value_is_exact", "gelu_tanh", {"value": of("gelu").value}),
    ("value_is_exact", "softplus", {"value": torch.nn.functional.softplus}),
    ("value_is_exact", "selu", {"value": scaled(of("selu").value, 1 + 1e-14)}),
    ("value_is_exact", "gelu_sigmoid", {"value": lambda x, beta=1.7: of("gelu_sigmoid").value(x, beta=beta)}),
    ("value_is_exact", "silu", {"oracle": of("mish").oracle}),
    ("slope_is_exact", "silu", {"slope": lambda x: (s := torch.sigmoid(x)) * (1 + x * (1 - s))}),
    ("slope_is_exact", "tanh", {"slope": lambda x: 1 - torch.tanh(x) ** 2}),
    ("slope_is_exact", "leaky_relu", {"slope": scaled(of("leaky_relu").slope, 1 + 1e-14)}),
    ("curvature_is_exact", "gelu", {"curvature": scaled(of("gelu").curvature, -1.0)}),
    ("curvature_is_exact", "relu2", {"curvature": of("relu").slope}),
    ("sixteen_bits_round_once", "gelu_sigmoid", {"value": lambda x: x * torch.sigmoid(1.702 * x)}),
    ("infinities_give_limits", "silu", {"value": torch.nn.functional.silu}),
    ("infinities_give_limits", "silu", {"limits": (0.0, 1.0)}),
    ("infinities_give_limits", "xielu", {"slope_limits": (0.3, INF)}),
    ("infinities_give_limits", "gelu", {"curvature": scaled(torch.ones_like, 1.0)}),
    ("infinities_give_limits", "gelu", {"domain": (0.0, INF)}),
    ("nan_stays_nan", "relu", {"slope": lambda x: (x > 0).to(x.dtype)}),
    ("nan_stays_nan", "leaky_relu", {"curvature": torch.zeros_like}),
    ("shape_layout_and_dtype_are_kept", "gelu", {"slope": lambda x: of("gelu").slope(x.double())}),
    ("shape_layout_and_dtype_are_kept", "relu", {"value": lambda x: x.relu_() if x.numel() else x.relu()}),
    ("autograd_of_value_is_slope", "sqrtsoftplus", {"value": lambda x: torch.nn.functional.softplus(x).sqrt()}),
    ("autograd_of_value_is_slope", "gelu", {"value": lambda x: of("gelu").value(x.detach()) + 0 * x}),
    ("autograd_of_slope_is_curvature", "gelu", {"slope": lambda x: of("gelu").slope(x.detach())}),
    ("autograd_of_slope_is_curvature", "mish", {"curvature": of("silu").curvature}),
    ("learnable_parameters_take_gradients", "prelu", {"value": deaf_weight}),
    ("learnable_parameters_take_gradients", "prelu", {"learnable": ("height",)}),
    ("parameters_are_the_defaults_and_are_heard", "elu", {"value": lambda x, alpha=1.0: torch.nn.functional.elu(x)}),
    ("parameters_are_the_defaults_and_are_heard", "softplus", {"value": softplus_with_threshold}),
    ("minimum_is_true_and_least", "gelu", {"minimum": -0.17}),
    ("minimum_is_true_and_least", "gelu", {"argmin": -0.7517}),
    ("minimum_is_true_and_least", "hardsigmoid", {"minimum": None, "argmin": None}),
    ("minimum_is_true_and_least", "silu", {"minimum": AT_127, "argmin": -1.27}),
    ("lipschitz_constant_is_tight", "gelu", {"lipschitz": 1.0}),
    ("lipschitz_constant_is_tight", "mish", {"lipschitz": 1.0885}),
    ("lipschitz_constant_is_tight", "relu2", {"lipschitz": 2.0}),
    ("lipschitz_constant_is_tight", "sigmoid", {"lipschitz": None}),
    ("monotone_or_not", "gelu", {"monotone": True}),
    ("monotone_or_not", "elu", {"monotone": False}),
    ("kinks_are_real", "relu", {"kinks": (0.0, 1.0)}),
    ("kinks_are_real", "relu", {"smoothness": 1}),
    ("kinks_are_real", "elu", {"smoothness": 0}),
    ("kinks_are_complete", "relu6", {"kinks": (0.0,)}),
    ("kinks_are_complete", "elu", {"kinks": ()}),
    ("zero_set_is_exact", "xielu", {"zeros": ((0.0, 0.0),), "oracle": lambda mp, x, **p: x * (x + 1)}),
    ("zero_set_is_exact", "xielu", {"zeros": ((-2.4, -2.4), (0.0, 0.0))}),
    ("zero_set_is_exact", "relu", {"zeros": ((0.0, 0.0),)}),
    ("zero_set_is_exact", "sigmoid", {"zeros": ((-INF, -30.0),)}),
    ("self_gated_or_not", "relu6", {"self_gated": True}),
    ("self_gated_or_not", "elu", {"self_gated": True}),
    ("self_gated_or_not", "hardswish", {"self_gated": False}),
    ("formula_evaluates_to_value", "gelu_tanh", {"formula": of("gelu_tanh").formula.replace("0.044715", "0.044716")}),
    ("formula_evaluates_to_value", "laplace", {"formula": SHIFTED, "params": {"mu": 0.7, "sigma": 0.282095}}),
    ("check_points_hold_what_matters", "silu", {"check_points": (-1.0, 0.0, 1.0)}),
    ("check_points_hold_what_matters", "mish", {"check_points": (-1.1924312145154952, 0.0, 1.0)}),
    ("names_lead_here", "relu", {"aliases": ("gelu",)}),
    ("names_lead_here", "relu", {"name": "swiglu"}),
    ("record_describes_itself", "elu", {"latex": r"\begin{cases}x"}),
    ("record_describes_itself", "elu", {"reference": "a paper"}),
]  # fmt: skip

GATED_FORGERIES = [
    ("gated_value_is_exact", "swiglu_oai", {"offset": 0.0}),
    ("gated_value_is_exact", "swiglu_oai", {"gate_max": None}),
    ("gated_value_is_exact", "swiglu_oai", {"up_limit": 7.5}),
    ("gated_value_is_exact", "swiglu_oai", {"gate_params": {"beta": 1.0}}),
    ("gated_value_is_exact", "geglu", {"gate": of("gelu_tanh")}),
    ("gated_slopes_are_exact", "geglu", {"gate": forged("gelu", slope=of("gelu").value)}),
    ("gated_slopes_are_exact", "swiglu_oai", {"up_limit": None}),
    ("gated_curvatures_are_exact", "geglu", {"gate": forged("gelu", curvature=of("gelu").slope)}),
    ("gated_curvatures_are_exact", "swiglu_oai", {"gate_max": 8.0}),
    ("gated_autograd_agrees", "reglu", {"gate": forged("relu", slope=lambda x: (x >= 0).to(x.dtype))}),
    ("gated_formula_evaluates_to_value", "swiglu_oai", {"formula": of("swiglu_oai").formula.replace("1.702", "1.7")}),
    ("gated_parts_are_the_documented_ones", "swiglu_oai", {"order": "gate_first"}),
    ("gated_nan_and_dtype", "reglu", {"gate": forged("relu", slope=lambda x: (x > 0).to(x.dtype))}),
    ("gated_names_lead_here", "swiglu", {"aliases": ("silu",)}),
    ("gated_record_describes_itself", "swiglu", {"latex": "g{"}),
]


@pytest.mark.parametrize(("check", "name", "changes"), FORGERIES)
def test_promise_catches_forgery(check, name, changes):
    PROMISES[check][0](acts.get(name))
    with pytest.raises(AssertionError):
        PROMISES[check][0](forged(name, **changes))


@pytest.mark.parametrize(("check", "name", "changes"), GATED_FORGERIES)
def test_gated_promise_catches_forgery(check, name, changes):
    GATED_PROMISES[check][0](acts.get(name))
    with pytest.raises(AssertionError):
        GATED_PROMISES[check][0](forged(name, **changes))


def test_every_promise_is_shown_to_fail():
    assert {check for check, _, _ in FORGERIES} == set(PROMISES)
    assert {check for check, _, _ in GATED_FORGERIES} == set(GATED_PROMISES)
