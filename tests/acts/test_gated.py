"""Gated functions against torch written out by hand, and the conventions that tell one SwiGLU from another."""

import math

import pytest
import torch
from torch.nn import functional as F

from softgate.acts import get, names

F64 = torch.float64

HAND = {
    "glu": lambda g, u: torch.sigmoid(g) * u,
    "bilinear": lambda g, u: g * u,
    "reglu": lambda g, u: F.relu(g) * u,
    "geglu": lambda g, u: F.gelu(g) * u,
    "geglu_tanh": lambda g, u: F.gelu(g, approximate="tanh") * u,
    "swiglu": lambda g, u: F.silu(g) * u,
    "swiglu_oai": lambda g, u: (c := g.clamp(max=7.0)) * torch.sigmoid(1.702 * c) * (u.clamp(-7.0, 7.0) + 1.0),
}


def halves(n=2000):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(n, dtype=F64, generator=generator) * 4 for _ in range(2)]


def test_hand_written_forms_cover_the_registry():
    assert set(HAND) == set(names(gated=True))


@pytest.mark.parametrize("name", HAND)
def test_value_and_slopes_agree_with_torch(name):
    gate, up = (h.requires_grad_() for h in halves())
    want = HAND[name](gate, up)
    by_gate, by_up = torch.autograd.grad(want.sum(), (gate, up))
    got = get(name).value(gate.detach(), up.detach())
    torch.testing.assert_close(got, want.detach(), rtol=1e-12, atol=1e-13)
    slopes = get(name).slopes(gate.detach(), up.detach())
    torch.testing.assert_close(slopes, (by_gate, by_up), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_slopes_at_clamp_edges_are_torchs(dtype):
    edges = torch.tensor([-7.5, -7.0, 0.0, 7.0, 7.5], dtype=dtype)
    gate, up = (t.flatten().clone().requires_grad_() for t in torch.meshgrid(edges, edges, indexing="ij"))
    want = torch.autograd.grad(HAND["swiglu_oai"](gate, up).sum(), (gate, up))
    got = get("swiglu_oai").slopes(gate.detach(), up.detach())
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    assert ((got[0] == 0) == (want[0] == 0)).all()
    assert ((got[1] == 0) == (want[1] == 0)).all()


def test_curvatures_agree_with_autograd_of_slopes():
    for name in HAND:
        gate, up = (h.requires_grad_() for h in halves(200))
        by_gate, by_up = torch.autograd.grad(HAND[name](gate, up).sum(), (gate, up), create_graph=True)
        # A zero of the same graph, so that a slope that is constant has a gradient of zero and not none.
        zero = (gate + up).sum() * 0
        twice, mixed = torch.autograd.grad(by_gate.sum() + zero, (gate, up), retain_graph=True)
        across, rest = torch.autograd.grad(by_up.sum() + zero, (gate, up))
        got = get(name).curvatures(gate.detach(), up.detach())
        torch.testing.assert_close(got, (twice, mixed, rest), rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(mixed, across, rtol=1e-11, atol=1e-11)


def test_glu_has_its_gate_first_and_torchs_has_it_second():
    gate, up = halves(50)
    torch.testing.assert_close(get("glu").value(gate, up), F.glu(torch.cat([up, gate])))


def test_swapped_halves_are_not_the_same_function():
    gate, up = halves(10_000)
    gate, up = gate / 4, up / 4
    record = get("swiglu")
    rms = (record.value(gate, up) - record.value(up, gate)).square().mean().sqrt().item()
    assert rms == pytest.approx(0.44, abs=0.03)


@pytest.mark.parametrize("name", HAND)
def test_up_of_one_gives_the_plain_function(name):
    record = get(name)
    gate = torch.linspace(-6, 6, 101, dtype=F64)
    got = record.value(gate, torch.full_like(gate, 1.0 - record.offset))
    torch.testing.assert_close(got, record.gate.value(gate, **record.gate_params), rtol=0, atol=0)


def test_parameters_that_set_gpt_oss_apart():
    record = get("swiglu_oai")
    assert dict(record.params) == {"beta": 1.702, "gate_max": 7.0, "up_limit": 7.0, "offset": 1.0}
    assert record.kinks == (7.0,)
    assert record.order == "interleaved"
    assert dict(get("swiglu").params) == {}
    assert get("reglu").kinks == (0.0,)


def test_far_out_gates_shut_to_zero():
    gate = torch.tensor([-math.inf, -1e30, -1e4], dtype=F64)
    up = torch.full_like(gate, 3.0)
    for name in ("glu", "reglu", "geglu", "geglu_tanh", "swiglu", "swiglu_oai"):
        assert (get(name).value(gate, up) == 0).all()
        assert (get(name).slopes(gate, up)[0] == 0).all()


@pytest.mark.parametrize("method", ["value", "slopes", "curvatures"])
def test_unequal_shapes_are_refused(method):
    with pytest.raises(ValueError, match=r"\(3,\) and \(1,\)"):
        getattr(get("swiglu"), method)(torch.zeros(3), torch.zeros(1))


def test_properties_of_one_argument_are_none():
    record = get("swiglu")
    assert (record.minimum, record.argmin, record.lipschitz, record.limits) == (None, None, None, None)
