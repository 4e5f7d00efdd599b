"""Records are frozen, refuse to contradict themselves, and show themselves safely."""

import copy
import dataclasses
import json
import math
import pickle

import pytest
import torch

from softgate.acts import get, names
from softgate.errors import RecordError

INF = math.inf
GELU = get("gelu").value

CONTRADICTIONS = [
    ("gelu", {"name": "GELU"}, "not a lower-case name"),
    ("gelu", {"aliases": ("gelu",)}, "given twice"),
    ("gelu", {"aliases": ("a b",)}, "not a lower-case name"),
    ("gelu", {"formula": "  "}, "formula is empty"),
    ("gelu", {"reference": ""}, "reference is empty"),
    ("elu", {"params": {"alpha": math.nan}}, "not finite"),
    ("elu", {"params": {"alpha": 2.0}}, "not the defaults"),
    ("prelu", {"learnable": ("bias",)}, "learnable"),
    ("gelu", {"domain": (1.0, 1.0)}, "domain is empty"),
    ("relu6", {"kinks": (6.0, 0.0)}, "ascending"),
    ("relu", {"check_points": (-1.0, 1.0)}, "not a check point"),
    ("gelu", {"check_points": (-1.0, INF)}, "check point is not finite"),
    ("relu", {"smoothness": INF}, "smoothness and kinks"),
    ("gelu", {"smoothness": 1}, "smoothness and kinks"),
    ("relu", {"smoothness": 2}, "smoothness is not"),
    ("xielu", {"zeros": ((0.0, 0.0), (-2.0, -2.0))}, "zeros are not"),
    ("relu", {"zeros": ((-INF, -1.0), (-1.0, 0.0))}, "touch"),
    ("gelu", {"zeros": ((1.0, 1.0),)}, "zero set"),
    ("gelu", {"minimum": None}, "both be given"),
    ("gelu", {"minimum": 1.0}, "above a limit"),
    ("gelu", {"minimum": -0.17}, "not the value at argmin"),
    ("gelu", {"argmin": -0.76}, "not the value at argmin"),
    ("gelu", {"argmin": -0.7518, "minimum": GELU(torch.tensor(-0.7518, dtype=torch.float64)).item()}, "not zero"),
    ("gelu", {"monotone": True, "limits": (INF, 0.0), "minimum": None, "argmin": None}, "falls from limit"),
    ("xielu", {"monotone": True}, "negative slope limit"),
    ("gelu", {"lipschitz": None}, "no Lipschitz"),
    ("relu2", {"lipschitz": 1.0}, "exceeds the Lipschitz"),
    ("gelu", {"lipschitz": 1.0}, "a slope exceeds"),
    ("gelu", {"lipschitz": -1.0}, "positive and finite"),
    ("elu", {"self_gated": True}, "has to shut"),
    ("elu", {"limits": (-2.0, INF)}, "stated limits"),
    ("elu", {"slope_limits": (0.0, 0.5)}, "stated slope limits"),
    ("gelu", {"value": lambda x: -GELU(x)}, "limits"),
    ("gelu", {"value": torch.nn.functional.gelu}, "limits"),
    ("gelu", {"value": lambda x: GELU(x).nan_to_num(posinf=INF)}, "NaN is lost"),
    ("gelu", {"value": lambda x: GELU(x).float()}, "shape or the dtype"),
    ("gelu", {"curvature": lambda x: GELU(x).sum()}, "shape or the dtype"),
]
GATED_CONTRADICTIONS = [
    ("swiglu", {"name": "Swi GLU"}, "not a lower-case name"),
    ("swiglu", {"latex": ""}, "latex is empty"),
    ("swiglu_oai", {"gate_params": {"slope": 1.0}}, "not one of the gate's"),
    ("swiglu_oai", {"gate_max": 0.0}, "gate_max"),
    ("swiglu_oai", {"up_limit": -7.0}, "up_limit"),
    ("swiglu_oai", {"offset": INF}, "offset"),
    ("swiglu_oai", {"order": "up_last"}, "order"),
]


@pytest.mark.parametrize(("name", "changes", "complaint"), CONTRADICTIONS + GATED_CONTRADICTIONS)
def test_a_record_that_contradicts_itself_cannot_be_made(name, changes, complaint):
    record = get(name)
    dataclasses.replace(record)
    with pytest.raises(RecordError, match=complaint) as caught:
        dataclasses.replace(record, **changes)
    assert str(caught.value).startswith(f"record '{changes.get('name', name)}'".replace('"', "'"))


@pytest.mark.parametrize("name", ["gelu", "swiglu"])
def test_records_are_frozen(name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        get(name).name = "other"


@pytest.mark.parametrize("name", ["elu", "swiglu_oai"])
def test_parameters_are_read_only(name):
    params = get(name).params
    with pytest.raises(TypeError):
        params["alpha"] = 2.0


def test_parameters_are_copied_from_what_came():
    mine = {"alpha": 1.0}
    record = dataclasses.replace(get("elu"), params=mine)
    mine["alpha"] = 5.0
    assert record.params["alpha"] == 1.0


def test_records_are_compared_by_identity():
    assert get("gelu") == get("gelu")
    assert get("gelu") != dataclasses.replace(get("gelu"))
    assert len({get("gelu"), get("gelu"), get("silu")}) == 2


@pytest.mark.parametrize("name", [*names(), *names(gated=True)])
def test_records_survive_copies_and_pickling(name):
    """A module that holds a record is deep-copied, saved whole and sent to workers."""
    record = get(name)
    assert copy.deepcopy({"held": record})["held"] is record
    again = pickle.loads(pickle.dumps(record))
    assert again.to_dict() == record.to_dict()
    assert type(again.params) is type(record.params)
    x = torch.linspace(-3, 3, 7)
    arguments = (x, x) if record.gated else (x,)
    assert torch.equal(again.value(*arguments), record.value(*arguments))


def test_html_is_escaped():
    hostile = "<script>alert(1)</script>"
    for name in ("gelu", "swiglu"):
        page = dataclasses.replace(get(name), title=hostile, formula=hostile, reference=hostile)._repr_html_()
        assert "<script" not in page
        assert "&lt;script&gt;" in page


def test_dictionary_says_why_a_number_is_missing():
    document = get("relu2").to_dict()
    assert document["lipschitz"] is None
    assert document["limits"] == [0.0, None]
    assert document["zeros"] == [[None, 0.0]]
    assert document["reasons"] == {
        "domain.0": "-infinity",
        "domain.1": "+infinity",
        "limits.1": "+infinity",
        "slope_limits.1": "+infinity",
        "lipschitz": "the slope is unbounded",
        "zeros.0.0": "-infinity",
    }


def test_gated_dictionary_names_its_gate():
    document = get("swiglu_oai").to_dict()
    assert document["gate"] == "gelu_sigmoid"
    assert document["gate_params"] == {"beta": 1.702}
    assert document["gated"] is True


@pytest.mark.parametrize("name", [*names(), *names(gated=True)])
def test_text_has_a_line_for_every_field_and_no_function(name):
    text = str(get(name))
    assert "0x" not in text
    assert "<function" not in text
    assert all(label in text for label in ("title", "formula", "aliases", "reference"))
    assert json.dumps(get(name).to_dict(), allow_nan=False)


def test_text_shows_facts():
    text = str(get("hardswish"))
    assert "[-inf, -3], 0" in text
    assert "-0.375" in text
    assert "monotone      no" in text
    assert "none: the slope is unbounded" in str(get("relu2"))
