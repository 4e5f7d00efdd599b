"""Activation as a module: names, learnable parameters and their stored form, copying, refusals."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import nn

from softgate import acts
from softgate.errors import BadInput, UnknownActivation
from softgate.nn import Activation

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", acts.names())
def test_every_plain_record_is_a_module(name: str, dtype: torch.dtype) -> None:
    record = acts.get(name)
    assert isinstance(record, acts.Activation)
    x = torch.linspace(-4, 4, 17, dtype=dtype)
    module = Activation(name)
    y = module(x)
    assert y.dtype == dtype
    # xielu's float32 raw parameters hold its defaults to the last bits of float32.
    tolerance = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) * 2 if record.learnable else 0.0
    assert torch.allclose(y, record.value(x), rtol=tolerance, atol=tolerance)
    assert [n for n, _ in module.named_parameters()] == list(record.learnable)
    assert set(module.state_dict()) == set(record.learnable)


def test_prelu_is_torchs() -> None:
    ours, theirs = Activation("prelu"), nn.PReLU()
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    weights = [module.get_parameter("weight") for module in (ours, theirs)]
    assert [(w.shape, w.item()) for w in weights] == [((1,), 0.25)] * 2
    x = torch.tensor([-2.0, -0.5, 0.0, 3.0])
    for module in (ours, theirs):
        module(x).square().sum().backward()
    # d/dw of (w x)^2 is 2 w x^2 at negative x: 2 * 0.25 * 4.25.
    assert [w.grad.item() for w in weights if w.grad is not None] == [2.125] * 2


def test_xielu_stores_hugging_faces_raw_parameters_in_float32() -> None:
    for module in (Activation("xielu"), Activation("xielu", dtype=torch.bfloat16)):
        state = module.state_dict()
        # log(expm1(0.8)) and log(expm1(0.8 - 0.5)).
        assert {k: (v.shape, v.dtype) for k, v in state.items()} == {
            k: (torch.Size([1]), torch.float32) for k in ("alpha_p", "alpha_n")
        }
        assert state["alpha_p"].item() == pytest.approx(math.log(math.expm1(0.8)), rel=1e-6)
        assert state["alpha_n"].item() == pytest.approx(math.log(math.expm1(0.3)), rel=1e-6)
    # A checkpoint's raw values are read as such: softplus(1) and 0.5 + softplus(-2).
    module.load_state_dict({"alpha_p": torch.tensor([1.0]), "alpha_n": torch.tensor([-2.0])})
    x = torch.tensor([-1.5, 2.0])
    alpha_p, alpha_n = math.log1p(math.exp(1.0)), 0.5 + math.log1p(math.exp(-2.0))
    wanted = [alpha_n * (math.expm1(-1.5) + 1.5) - 0.75, alpha_p * 4.0 + 1.0]
    assert module(x).tolist() == pytest.approx(wanted, rel=1e-6)


def test_xielu_learns_through_the_raw_form() -> None:
    module = Activation("xielu").double()
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)

    def loss(p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y = torch.func.functional_call(module, {"alpha_p": p, "alpha_n": n}, x)
        assert isinstance(y, torch.Tensor)
        return y

    raw = [p.detach().clone().requires_grad_() for p in module.parameters()]
    assert torch.autograd.gradcheck(loss, raw)


def test_effective_starting_values_can_be_given() -> None:
    assert Activation("prelu", weight=0.1).get_parameter("weight").item() == pytest.approx(0.1)
    module = Activation("xielu", alpha_p=1.5, alpha_n=0.9, beta=0.2).double()
    effective = {k: torch.as_tensor(v).item() for k, v in module.effective().items()}
    assert effective == pytest.approx({"alpha_p": 1.5, "alpha_n": 0.9, "beta": 0.2}, rel=1e-6)
    # Far out softplus is the identity; nothing overflows on the way there.
    far = Activation("xielu", alpha_p=2000.0).effective()["alpha_p"]
    assert torch.as_tensor(far).item() == 2000.0
    x = torch.tensor([-1.0])
    assert Activation("elu", alpha=2.0)(x).item() == pytest.approx(2 * math.expm1(-1.0))


def test_names_and_representation() -> None:
    assert repr(Activation("swish")) == "Activation('silu')"
    assert repr(Activation("elu", alpha=0.5)) == "Activation('elu', alpha=0.5)"
    assert repr(Activation("elu", alpha=1.0)) == "Activation('elu')"
    assert Activation("quick_gelu").record is acts.get("gelu_sigmoid")


@pytest.mark.parametrize("name", ["gelu", "elu", "prelu", "xielu"])
def test_copies_and_pickles(name: str) -> None:
    module = Activation(name)
    x = torch.linspace(-2, 2, 5)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x), module(x))
        assert repr(other) == repr(module)


def test_device_and_dtype() -> None:
    assert Activation("prelu", device="meta", dtype=torch.float64).weight.device.type == "meta"
    assert Activation("prelu", dtype=torch.float64).weight.dtype == torch.float64


def test_refusals() -> None:
    with pytest.raises(BadInput, match="swiglu is gated and takes two tensors"):
        Activation("swiglu")
    with pytest.raises(UnknownActivation):
        Activation("gellu")
    with pytest.raises(BadInput, match="gelu has no parameter 'alpha'"):
        Activation("gelu", alpha=1.0)
    with pytest.raises(BadInput, match="alpha must be a finite number; got inf"):
        Activation("elu", alpha=math.inf)
    with pytest.raises(BadInput, match="alpha_p must be above 0"):
        Activation("xielu", alpha_p=-0.1)
    with pytest.raises(BadInput, match="alpha_n - beta must be above 0"):
        Activation("xielu", alpha_n=0.5, beta=0.5)
