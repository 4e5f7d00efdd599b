"""Names: the canonical ones, the aliases, and what an unknown one says."""

import pytest
import torch

from softgate.acts import aliases, get, names
from softgate.acts.registry import _index
from softgate.errors import RecordError, UnknownActivation

PLAIN = [
    "relu",
    "relu2",
    "relu6",
    "leaky_relu",
    "prelu",
    "elu",
    "selu",
    "celu",
    "gelu",
    "gelu_tanh",
    "gelu_sigmoid",
    "silu",
    "mish",
    "softplus",
    "hardswish",
    "hardsigmoid",
    "sigmoid",
    "tanh",
    "laplace",
    "xielu",
    "gelu_10",
    "sqrtsoftplus",
    "identity",
]
GATED = ["glu", "bilinear", "reglu", "geglu", "geglu_tanh", "swiglu", "swiglu_oai"]

# What each key of Hugging Face's ACT2FN (transformers 5.17.0, activations.py) computes.
ACT2FN = {
    "gelu": "gelu",
    "gelu_10": "gelu_10",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "hardswish": "hardswish",
    "laplace": "laplace",
    "leaky_relu": "leaky_relu",
    "linear": "identity",
    "mish": "mish",
    "quick_gelu": "gelu_sigmoid",
    "relu": "relu",
    "relu2": "relu2",
    "relu6": "relu6",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "sqrtsoftplus": "sqrtsoftplus",
    "swish": "silu",
    "tanh": "tanh",
    "prelu": "prelu",
    "xielu": "xielu",
}


def test_canonical_names_are_exactly_the_documented_ones():
    assert list(names()) == PLAIN
    assert list(names(gated=True)) == GATED


@pytest.mark.parametrize(("key", "canonical"), [*ACT2FN.items(), ("squared_relu", "relu2")])
def test_other_peoples_names_resolve(key, canonical):
    assert get(key).name == canonical
    assert get(key) is get(canonical)


def test_all_24_keys_are_here():
    assert len(ACT2FN) == 24


def test_aliases_are_no_canonical_names_and_lead_to_one():
    found = aliases()
    assert not set(found) & {*PLAIN, *GATED}
    assert set(found.values()) <= {*PLAIN, *GATED}
    assert found["quick_gelu"] == "gelu_sigmoid"


def test_changing_the_returned_aliases_changes_nothing():
    aliases()["nonsense"] = "relu"
    with pytest.raises(UnknownActivation):
        get("nonsense")


@pytest.mark.parametrize(
    ("wrong", "expected"), [("gellu", "gelu"), ("swigelu", "swiglu"), ("ReLU", "relu"), ("leakyrelu_", "leaky_relu")]
)
def test_unknown_name_is_answered_with_near_ones(wrong, expected):
    with pytest.raises(UnknownActivation) as caught:
        get(wrong)
    assert expected in caught.value.near
    assert f"'{wrong}'" in str(caught.value)


def test_unlike_anything_says_where_names_are():
    with pytest.raises(UnknownActivation, match=r"softgate\.names\(\)"):
        get("qqqqqqqq")


@pytest.mark.parametrize("wrong", [None, 3, "", "x" * 10**6, "relu\n\x1b[31m", ["relu"]])
def test_any_other_argument_is_an_unknown_name_on_one_line(wrong):
    with pytest.raises(UnknownActivation) as caught:
        get(wrong)
    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()


def test_a_name_taken_twice_is_refused():
    with pytest.raises(RecordError, match="'gelu' is taken"):
        _index([get("gelu"), get("gelu")])


def test_gelu_family_members_differ():
    """Four functions called GELU, apart by what has been published about them: at -1 the erf and the tanh form."""
    x = torch.tensor([-1.0], dtype=torch.float64)
    assert get("gelu").value(x).item() == pytest.approx(-0.158655, abs=5e-7)
    assert get("gelu_tanh").value(x).item() == pytest.approx(-0.158808, abs=5e-7)
    assert get("gelu_sigmoid").value(x).item() == pytest.approx(-0.15420, abs=5e-5)
    far = torch.tensor([12.0], dtype=torch.float64)
    assert get("gelu_10").value(far).item() == 10.0
