"""FFN and its fair width: the rule on every width, parameter names and counts, values, dropout, refusals."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from softgate import acts
from softgate.errors import BadInput, UnknownActivation
from softgate.nn import FFN, hidden_width
from softgate.nn.functional import activate, gate

EVERY = (*acts.names(), *acts.names(gated=True))


def count(d: int, h: int, *, gated: bool, bias: bool) -> int:
    """Parameters of a block, spelled out."""
    if gated:
        return d * h + d * h + h * d + (h + h + d if bias else 0)
    return d * h + h * d + (h + d if bias else 0)


# --- width ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "width"),
    # 8 d / 3 = 170.7, 341.3, 682.7, 1365.3, 2048, 2730.7, 10922.7: multiples of 8 miss 0.5 % at 64 and 128.
    [(64, 170), (128, 340), (256, 680), (512, 1368), (768, 2048), (1024, 2728), (4096, 10920)],
)
def test_known_widths(d: int, width: int) -> None:
    assert hidden_width(d, gated=True, bias=False) == width


def test_parameters_of_a_known_model_agree() -> None:
    # GPT-2 small: 4,718,592 a block; SwiGLU of width 4 d would have 7,077,888.
    assert count(768, hidden_width(768, gated=True, bias=False), gated=True, bias=False) == 4_718_592
    assert count(768, 4 * 768, gated=True, bias=False) == 7_077_888


@pytest.mark.parametrize("bias", [False, True])
def test_rule_against_brute_force(bias: bool) -> None:
    refused = 0
    for d in range(1, 260):
        target = count(d, 4 * d, gated=False, bias=bias)
        assert hidden_width(d, gated=False, bias=bias) == 4 * d

        def miss(h: int, d: int = d, target: int = target) -> int:
            return abs(count(d, h, gated=True, bias=bias) - target)

        def best(m: int, d: int = d, miss: object = miss) -> list[int]:
            found = [miss(h) for h in range(m, 4 * d + m, m)]  # type: ignore[operator]
            return [m * (i + 1) for i, v in enumerate(found) if v == min(found)]

        fits = [m for m in (8, 4, 2, 1) if miss(best(m)[0]) * 200 <= target]
        if fits:
            assert hidden_width(d, gated=True, bias=bias) in best(fits[0]), d
            continue
        refused += 1
        with pytest.raises(BadInput) as caught:
            hidden_width(d, gated=True, bias=bias)
        named = [int(h) for h in re.findall(r"(\d+) \([+-]\d+\.\d\d% parameters\)", str(caught.value))]
        below, above = named
        assert above == below + 1
        assert count(d, below, gated=True, bias=bias) < target < count(d, above, gated=True, bias=bias)
    assert 3 < refused < 40


def test_width_refusals() -> None:
    with pytest.raises(ValueError, match=r"d_model 8: .* 21 \(-1\.56% parameters\) and 22 \(\+3\.12% parameters\)"):
        hidden_width(8, gated=True, bias=False)
    for wrong in (0, -3, 2.0, True):
        with pytest.raises(BadInput, match="d_model must be a whole number"):
            hidden_width(wrong, gated=True, bias=False)  # type: ignore[arg-type]


# --- block ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_matched_parameters_and_names(name: str, bias: bool) -> None:
    gated = acts.get(name).gated
    ffn = FFN(48, activation=name, bias=bias)
    linears = ["up_proj", "down_proj", *(["gate_proj"] if gated else [])]
    learnable = [] if gated else [f"act_fn.{k}" for k in getattr(acts.get(name), "learnable", ())]
    kinds = ("weight", "bias") if bias else ("weight",)
    assert set(ffn.state_dict()) == {f"{linear}.{kind}" for linear in linears for kind in kinds} | set(learnable)
    assert ffn.up_proj.weight.shape == (ffn.d_ff, 48)
    assert ffn.down_proj.weight.shape == (48, ffn.d_ff)
    total = sum(p.numel() for n, p in ffn.named_parameters() if not n.startswith("act_fn"))
    assert total == count(48, ffn.d_ff, gated=gated, bias=bias)
    assert abs(total / count(48, 192, gated=False, bias=bias) - 1) <= 0.005


@pytest.mark.parametrize("name", EVERY)
def test_value_and_gradients_are_those_of_the_formula(name: str) -> None:
    torch.manual_seed(0)
    ffn = FFN(6, d_ff=10, activation=name, bias=True, dtype=torch.float64)
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    up = F.linear(x, ffn.up_proj.weight, ffn.up_proj.bias)
    if ffn.gated:
        hidden = gate(F.linear(x, ffn.gate_proj.weight, ffn.gate_proj.bias), up, name)
    else:
        hidden = activate(up, name, **ffn.act_fn.effective())
    wanted = F.linear(hidden, ffn.down_proj.weight, ffn.down_proj.bias)
    y = ffn(x)
    assert torch.equal(y, wanted)
    inputs = [x, *ffn.parameters()]
    for got, expected in zip(
        torch.autograd.grad(y.square().sum(), inputs), torch.autograd.grad(wanted.square().sum(), inputs), strict=True
    ):
        assert got.abs().max() > 0
        assert torch.equal(got, expected)


def test_gate_and_up_are_not_confused() -> None:
    ffn = FFN(1, d_ff=1, activation="reglu")
    with torch.no_grad():
        ffn.gate_proj.weight.fill_(2.0)
        ffn.up_proj.weight.fill_(-3.0)
        ffn.down_proj.weight.fill_(5.0)
    assert ffn(torch.tensor([[1.0], [-1.0]])).tolist() == [[-30.0], [0.0]]


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8), (2, 1, 3, 8), (0, 8)])
@pytest.mark.parametrize("name", ["gelu", "xielu", "swiglu"])
def test_any_batch_rank(name: str, shape: tuple[int, ...]) -> None:
    ffn = FFN(8, d_ff=12, activation=name, dtype=torch.float64)
    x = torch.randn(shape, dtype=torch.float64)
    y = ffn(x)
    assert y.shape == shape
    assert torch.allclose(y.reshape(-1, 8), ffn(x.reshape(-1, 8)), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", EVERY)
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    ffn = FFN(48, activation=name, dtype=dtype)
    y = ffn(torch.ones(2, 48, dtype=dtype))
    assert y.dtype == dtype
    assert y.isfinite().all()
    # xielu's raw parameters stay in float32.
    assert {p.dtype for n, p in ffn.named_parameters() if name != "xielu" or "act_fn" not in n} == {dtype}


def test_explicit_and_unmatched_widths() -> None:
    assert FFN(8, d_ff=21).d_ff == 21
    assert FFN(8, d_ff=21, match_params=False).gate_proj.weight.shape == (21, 8)
    assert FFN(8, match_params=False).d_ff == 32
    assert FFN(8, activation="gelu").d_ff == 32
    with pytest.raises(BadInput, match="nearest are 21"):
        FFN(8)


def test_dropout_acts_on_the_hidden_activations_while_training() -> None:
    torch.manual_seed(0)
    ffn = FFN(8, d_ff=400, activation="gelu", dropout=0.25)
    seen: list[tuple[Tensor, Tensor]] = []
    ffn.down_proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = torch.randn(50, 8)
    ffn.eval()
    ffn(x)
    ffn.train()
    ffn(x)
    whole, dropped = seen
    assert isinstance(whole, Tensor)
    assert isinstance(dropped, Tensor)
    gone = dropped == 0
    # 20,000 units: the standard error of the share is 0.003.
    assert abs(gone.float().mean().item() - 0.25) < 0.02
    assert torch.allclose(dropped[~gone], whole[~gone] / 0.75)
    with pytest.raises(ValueError, match="dropout"):
        FFN(8, dropout=1.5, d_ff=8)


def test_names_device_copies_and_representation() -> None:
    ffn = FFN(8, 21, "swish", device="meta")
    assert {p.device.type for p in ffn.parameters()} == {"meta"}
    assert FFN(8, 21, "xielu", device="meta").act_fn.alpha_p.device.type == "meta"
    assert (ffn.activation, ffn.gated) == ("silu", False)
    assert "d_model=8, d_ff=21, activation='silu'" in repr(ffn)
    ffn = FFN(8, 21, "xielu")
    x = torch.randn(3, 8)
    for other in (copy.deepcopy(ffn), pickle.loads(pickle.dumps(ffn))):
        assert torch.equal(other(x), ffn(x))


def test_refusals() -> None:
    with pytest.raises(UnknownActivation, match="did you mean swiglu"):
        FFN(64, activation="swigul")
    for width in (0, 2.5, True):
        with pytest.raises(BadInput, match="d_ff must be a whole number"):
            FFN(64, d_ff=width)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="d_model must be a whole number"):
            FFN(width, d_ff=8)  # type: ignore[arg-type]
    ffn = FFN(64)
    with pytest.raises(BadInput, match=r"last dimension of x must be d_model = 64; got \(2, 63\)"):
        ffn(torch.zeros(2, 63))
    with pytest.raises(BadInput, match="last dimension"):
        ffn(torch.tensor(1.0))
    with pytest.raises(BadInput, match=r"x must be floating point; got torch\.int64"):
        ffn(torch.zeros(2, 64, dtype=torch.int64))
