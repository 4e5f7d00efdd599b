"""The lab's model: what arms share at the start, parameter counts, initialisation, causality."""

import math

import msgspec
import pytest
import torch

from softgate import acts
from softgate.errors import BadInput
from softgate.lab.model import LanguageModel
from softgate.lab.spec import ModelSpec
from softgate.theory import moments

SMALL = ModelSpec(d_model=32, layers=2, heads=2, context=16)


def initial(arm: str, seed: int = 0, **changes: object) -> dict[str, torch.Tensor]:
    spec = msgspec.structs.replace(SMALL, **changes)
    return dict(LanguageModel(spec, arm, seed=seed).state_dict())


def test_plain_arms_start_from_equal_weights() -> None:
    relu, gelu = initial("relu"), initial("gelu")
    assert relu.keys() == gelu.keys()
    for name, weight in relu.items():
        assert torch.equal(weight, gelu[name]), name


def test_a_gated_arm_shares_every_tensor_whose_shape_agrees() -> None:
    relu, swiglu = initial("relu"), initial("swiglu")
    shared = [name for name in relu if name in swiglu and relu[name].shape == swiglu[name].shape]
    # Embeddings, norms and attention: everything outside the FFN.
    assert {name for name in relu if ".ffn." not in name} == set(shared)
    for name in shared:
        assert torch.equal(relu[name], swiglu[name]), name


def test_another_seed_gives_other_weights_and_no_two_tensors_are_equal() -> None:
    a, b = initial("relu", seed=0), initial("relu", seed=1)
    matrices = [name for name, weight in a.items() if weight.dim() == 2]
    for name in matrices:
        assert not torch.equal(a[name], b[name]), name
    assert not torch.equal(a["blocks.0.ffn.up_proj.weight"], a["blocks.1.ffn.up_proj.weight"])


@pytest.mark.parametrize("arm", acts.names() + acts.names(gated=True))
def test_parameters_match_within_half_a_percent(arm: str) -> None:
    spec = ModelSpec()
    plain = LanguageModel(spec, "relu", seed=0).parameter_count()
    assert abs(LanguageModel(spec, arm, seed=0).parameter_count() / plain - 1) <= 0.005


def test_a_width_that_cannot_match_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="nearest"):
        LanguageModel(ModelSpec(d_model=10, heads=1), "swiglu", seed=0)


@pytest.mark.parametrize(
    ("scheme", "up", "down"),
    [
        ("0.02", 0.02, 0.02),
        ("he", math.sqrt(2 / 128), math.sqrt(2 / 512)),
        ("xavier", math.sqrt(2 / 640), math.sqrt(2 / 640)),
        ("own", math.sqrt(1 / 128), moments("gelu").gain / math.sqrt(512)),
    ],
)
def test_schemes_set_the_standard_deviation(scheme: str, up: float, down: float) -> None:
    changes = {"d_model": 128, "init": scheme, "residual_scale": False}
    weights = initial("gelu", **changes)
    # 65,536 draws: the standard deviation is known to 0.3 %, four times that is allowed.
    assert float(weights["blocks.0.ffn.up_proj.weight"].std()) == pytest.approx(up, rel=0.012)
    assert float(weights["blocks.0.ffn.down_proj.weight"].std()) == pytest.approx(down, rel=0.012)
    scaled = initial("gelu", **{**changes, "residual_scale": True})
    ratio = scaled["blocks.0.ffn.down_proj.weight"] / weights["blocks.0.ffn.down_proj.weight"]
    assert torch.allclose(ratio, torch.full_like(ratio, 0.5))  # 1 / sqrt(2 * 2 layers)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("bias", [False, True])
def test_the_future_does_not_leak_and_order_matters(norm: str, positions: str, bias: bool) -> None:
    spec = msgspec.structs.replace(SMALL, norm=norm, positions=positions, bias=bias, init="own")
    model = LanguageModel(spec, "swiglu", seed=0).eval()
    tokens = torch.randint(256, (1, 16), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, 9] = (changed[0, 9] + 1) % 256
    before, after = model(tokens), model(changed)
    assert torch.equal(before[0, :9], after[0, :9])
    assert not torch.equal(before[0, 9:], after[0, 9:])
    swapped = tokens[:, [1, 0, *range(2, 16)]]
    assert not torch.allclose(model(swapped)[0, 15], before[0, 15], atol=1e-6)


def test_every_record_trains_every_parameter() -> None:
    tokens = torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(0))
    for arm in acts.names() + acts.names(gated=True):
        model = LanguageModel(SMALL, arm, seed=0)
        model(tokens).logsumexp(-1).sum().backward()
        for name, p in model.named_parameters():
            assert p.grad is not None, (arm, name)
            assert bool(p.grad.isfinite().all()), (arm, name)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"heads": 3}, "multiple of heads"),
        ({"dropout": 1.0}, "dropout"),
        ({"layers": 0}, "layers"),
        ({"d_model": 6, "heads": 2}, "d_model"),
        ({"d_model": 10, "heads": 2, "positions": "rotary"}, "even head width"),
    ],
)
def test_impossible_models_are_refused(changes: dict[str, object], what: str) -> None:
    with pytest.raises(BadInput, match=what):
        msgspec.structs.replace(SMALL, **changes)
