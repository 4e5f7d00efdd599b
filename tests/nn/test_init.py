"""gain and init_: the right variance, in the right places, reproducibly; and signals that survive depth."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from softgate import acts
from softgate.errors import UnknownActivation
from softgate.nn import FFN, Activation, init
from softgate.theory import moments, propagate


@pytest.mark.parametrize("name", [*acts.names(), *acts.names(gated=True)])
def test_gain_is_the_theorys(name: str) -> None:
    assert init.gain(name) == moments(name).gain > 0


def test_gain_is_torchs_where_torch_has_one_that_is_exact() -> None:
    assert init.gain("relu") == pytest.approx(nn.init.calculate_gain("relu"), rel=1e-14)
    assert init.gain("leaky_relu") == pytest.approx(nn.init.calculate_gain("leaky_relu", 0.01), rel=1e-14)
    with pytest.raises(ValueError, match="gelu"):
        nn.init.calculate_gain("gelu")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["relu", "gelu", "swiglu"])
def test_weights_have_variance_gain_squared_over_fan_in(name: str) -> None:
    layer = nn.Linear(300, 1000)
    assert init.init_(layer, name, torch.Generator().manual_seed(1)) is layer
    z = layer.weight.detach().double() * math.sqrt(300) / init.gain(name)
    # 300,000 draws: the standard errors are 0.0018 for the mean and 0.0026 for the variance.
    assert abs(z.mean().item()) < 0.01
    assert abs(z.var().item() - 1) < 0.013
    assert abs(z.pow(4).mean().item() / z.var().item() ** 2 - 3) < 0.05
    assert not layer.bias.any()


def test_children_are_included_and_nothing_else_is_touched() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Sequential(FFN(8, 16, "prelu", bias=True)))
    others = {k: v.clone() for k, v in model.state_dict().items() if "1." in k[:2] or "act_fn" in k}
    before = {k: v.clone() for k, v in model.state_dict().items() if k not in others}
    init.init_(model, "prelu")
    after = model.state_dict()
    assert len(others) == 3
    assert all(torch.equal(after[k], v) for k, v in others.items())
    assert all(not torch.equal(after[k], v) for k, v in before.items())
    assert not any(after[k].any() for k in before if k.endswith("bias"))


def test_generator_makes_it_reproducible_and_leaves_the_global_state_alone() -> None:
    state = torch.random.get_rng_state()
    a, b = (init.init_(nn.Linear(5, 6), "gelu", torch.Generator().manual_seed(3)).state_dict() for _ in range(2))
    assert torch.equal(a["weight"], b["weight"])
    torch.random.set_rng_state(state)
    init.init_(layer := nn.Linear(5, 6), "gelu", torch.Generator().manual_seed(4))
    assert not torch.equal(layer.weight, a["weight"])


def test_the_global_random_state_is_not_read_when_a_generator_is_given() -> None:
    layer = nn.Linear(5, 6)
    state = torch.random.get_rng_state()
    init.init_(layer, "gelu", torch.Generator().manual_seed(3))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_an_unknown_name_changes_nothing() -> None:
    layer = nn.Linear(5, 6)
    before = layer.weight.clone()
    with pytest.raises(UnknownActivation):
        init.init_(layer, "gellu")
    assert torch.equal(layer.weight, before)


def test_signals_follow_the_recursion_where_torchs_default_loses_them() -> None:
    """30 layers of width 128 with ReLU: torch's default multiplies the second moment by 1/6; the own gain keeps it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 128, generator=generator)

    def second_moments(layers: list[nn.Linear], name: str) -> list[float]:
        activation, h, found = Activation(name), x, []
        with torch.no_grad():
            for layer in layers:
                h = layer(h)
                found.append(h.square().mean().item())
                h = activation(h)
        return found

    with torch.random.fork_rng():
        torch.manual_seed(0)
        default = second_moments([nn.Linear(128, 128) for _ in range(30)], "relu")
    # The first layer sees no ReLU: a third; then a sixth a layer, until only the biases, of variance 1/384, are left.
    assert default[1] / default[0] == pytest.approx(1 / 6, rel=0.15)
    assert default[-1] == pytest.approx(1.2 / 384, rel=0.3)

    for name in ("relu", "tanh"):
        # The mean of many networks: after 7 layers of width 128 the standard deviation of one is about 35 % with ReLU.
        runs = []
        for _ in range(24):
            layers = [nn.Linear(128, 128) for _ in range(8)]
            runs.append(second_moments([init.init_(layer, name, generator) for layer in layers], name))  # type: ignore[misc]
        start = init.gain(name) ** 2
        wanted = propagate(name, depth=7, weight_var=start, start=start).q
        measured = torch.tensor(runs).mean(0)
        assert torch.allclose(measured, torch.tensor(wanted), rtol=0.15), name
