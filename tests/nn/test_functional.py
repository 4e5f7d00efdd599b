"""activate and gate: values and gradients are the record's, nothing but the inputs is kept, wrong input is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from softgate import acts
from softgate.errors import BadInput, UnknownActivation
from softgate.nn.functional import activate, gate

PLAIN = acts.names()
GATED = acts.names(gated=True)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Away from every kink: 0, 3, 6, 7, 10 and their negatives.
SMOOTH = (-8.3, -5.2, -2.1, -1.3, -0.4, 0.3, 0.9, 2.2, 4.7, 8.1, 11.0)


def plain(name: str) -> acts.Activation:
    record = acts.get(name)
    assert isinstance(record, acts.Activation)
    return record


def gated(name: str) -> acts.GatedActivation:
    record = acts.get(name)
    assert isinstance(record, acts.GatedActivation)
    return record


def smooth(order: tuple[int, ...] | None = None) -> Tensor:
    x = torch.tensor(SMOOTH, dtype=torch.float64)
    return (x if order is None else x[list(order)]).requires_grad_()


def kept(run: Callable[[], Tensor]) -> list[Tensor]:
    """The tensors that autograd keeps while `run` runs."""
    found: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        assert run().requires_grad
    return found


def equal(a: Tensor, b: Tensor) -> bool:
    """Same bits, but for NaN."""
    return a.dtype == b.dtype and torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(7), b.nan_to_num(7))


# --- plain ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLAIN)
def test_first_second_and_third_derivatives(name: str) -> None:
    x = smooth()
    assert gradcheck(lambda t: activate(t, name), (x,))
    assert gradgradcheck(lambda t: activate(t, name), (x,))
    # The third by differences of the second.
    (second,) = _second(name, x)
    if second.requires_grad:
        (third,) = torch.autograd.grad(second.sum(), x)
        h = 1e-5
        (above,), (below,) = (_second(name, (x.detach() + s * h).requires_grad_()) for s in (1, -1))
        assert torch.allclose(third, (above - below).detach() / (2 * h), rtol=1e-6, atol=1e-7)


def _second(name: str, x: Tensor) -> tuple[Tensor]:
    (first,) = torch.autograd.grad(activate(x, name).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    return (second,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PLAIN)
def test_value_gradient_and_second_derivative_are_the_records_everywhere(name: str, dtype: torch.dtype) -> None:
    record = plain(name)
    points = (*record.check_points, 0.0, -0.0, 1e30, -math.inf, math.inf, math.nan)
    x = torch.tensor(points, dtype=dtype, requires_grad=True)
    y = activate(x, name)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    bare = x.detach()
    assert equal(y.detach(), record.value(bare))
    assert equal(first.detach(), record.slope(bare))
    assert equal(second, record.curvature(bare))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PLAIN)
def test_only_x_is_kept(name: str, dtype: torch.dtype) -> None:
    x = torch.linspace(-4, 4, 64, dtype=dtype).requires_grad_()
    found = kept(lambda: activate(x, name))
    assert [t.data_ptr() for t in found] == [x.data_ptr()]
    assert sum(t.numel() * t.element_size() for t in found) == 64 * dtype.itemsize


def test_what_is_kept_can_be_told_apart() -> None:
    """The measure sees a formula that keeps more, so that the test above can fail."""
    x = torch.linspace(-4, 4, 64).requires_grad_()
    assert len(kept(lambda: plain("gelu_tanh").value(x))) > 1


@pytest.mark.parametrize("name", PLAIN)
def test_without_gradients(name: str) -> None:
    x = torch.linspace(-4, 4, 9)
    wanted = plain(name).value(x)
    with torch.no_grad():
        assert equal(activate(x.clone().requires_grad_(), name), wanted)
        assert not activate(x.clone().requires_grad_(), name).requires_grad
    with torch.inference_mode():
        assert equal(activate(x, name), wanted)
    assert not activate(x, name).requires_grad


def test_any_shape_and_layout() -> None:
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    for view in (x, x.transpose(0, 2), x[:, ::2], x[0, 0, 0], x[:0]):
        leaf = view.detach().requires_grad_()
        y = activate(leaf, "gelu")
        y.sum().backward()  # type: ignore[no-untyped-call]
        assert equal(y.detach(), plain("gelu").value(view))
        assert leaf.grad is not None
        assert equal(leaf.grad, plain("gelu").slope(view))


def test_functional_gradients() -> None:
    """torch.func sees the same derivatives; batching (vmap) is refused by torch itself."""
    x = torch.tensor(SMOOTH, dtype=torch.float64)
    assert torch.equal(torch.func.grad(lambda t: activate(t, "gelu").sum())(x), plain("gelu").slope(x))
    twice = torch.func.grad(lambda t: torch.func.grad(lambda s: activate(s, "gelu").sum())(t).sum())(x)
    assert torch.equal(twice, plain("gelu").curvature(x))
    both = torch.func.grad(lambda g, u: gate(g, u, "swiglu").sum(), argnums=(0, 1))(x, x)
    assert torch.equal(torch.stack(both), torch.stack(gated("swiglu").slopes(x, x)))
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(lambda t: activate(t, "gelu"))(x)


def test_number_parameters_replace_the_defaults() -> None:
    x = smooth()
    assert equal(activate(x, "elu", alpha=0.5).detach(), plain("elu").value(x.detach(), alpha=0.5))
    assert gradcheck(lambda t: activate(t, "elu", alpha=0.5), (x,))
    assert gradgradcheck(lambda t: activate(t, "elu", alpha=0.5), (x,))
    assert [t.data_ptr() for t in kept(lambda: activate(x, "elu", alpha=0.5))] == [x.data_ptr()]


@pytest.mark.parametrize("name", [n for n in PLAIN if plain(n).learnable])
def test_tensor_parameters_get_gradients_of_both_orders(name: str) -> None:
    record = plain(name)
    start = [torch.tensor([record.params[k] * 1.1], dtype=torch.float64, requires_grad=True) for k in record.learnable]

    def f(x: Tensor, *params: Tensor) -> Tensor:
        return activate(x, name, **dict(zip(record.learnable, params, strict=True)))

    x = smooth()
    assert gradcheck(f, (x, *start))
    assert gradgradcheck(f, (x, *start))
    values = {k: v.item() for k, v in zip(record.learnable, start, strict=True)}
    assert torch.allclose(f(x, *start), activate(x, name, **values), rtol=1e-15)
    # A parameter that needs no gradient is the same function.
    assert torch.equal(f(x, *[t.detach() for t in start]), f(x, *start))


@pytest.mark.parametrize("name", [n for n in PLAIN if plain(n).learnable])
def test_tensor_parameters_leave_the_slope_right_at_and_around_zero(name: str) -> None:
    record = plain(name)
    x = torch.tensor([-1e-3, -1e-30, -0.0, 0.0, 1e-30, 1e-3], dtype=torch.float64, requires_grad=True)
    params = {k: torch.tensor([record.params[k]], dtype=torch.float64, requires_grad=True) for k in record.learnable}
    activate(x, record, **params).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.allclose(x.grad, record.slope(x.detach()), rtol=1e-14, atol=0)


def test_plain_refusals() -> None:
    x = torch.ones(2)
    for dtype in (torch.int64, torch.uint8, torch.bool, torch.complex64):
        with pytest.raises(BadInput, match=rf"gelu: x must be floating point; got {dtype}"):
            activate(x.to(dtype), "gelu")
    with pytest.raises(TypeError, match="gelu: x must be a tensor; got list"):
        activate([1.0], "gelu")  # type: ignore[arg-type]
    with pytest.raises(UnknownActivation, match="did you mean gelu"):
        activate(x, "gellu")
    with pytest.raises(BadInput, match="swiglu is gated and takes two tensors"):
        activate(x, "swiglu")
    with pytest.raises(BadInput, match="gelu has no parameter 'alpha'; it takes none"):
        activate(x, "gelu", alpha=1.0)
    with pytest.raises(BadInput, match="elu has no parameter 'beta'; its parameters are alpha"):
        activate(x, "elu", beta=torch.ones(1))


# --- gated ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GATED)
def test_gated_first_and_second_derivatives(name: str) -> None:
    g, u = smooth(), smooth((3, 9, 5, 0, 7, 10, 2, 6, 1, 8, 4))
    assert gradcheck(lambda a, b: gate(a, b, name), (g, u))
    assert gradgradcheck(lambda a, b: gate(a, b, name), (g, u))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", GATED)
def test_gated_value_and_gradients_are_the_records_everywhere(name: str, dtype: torch.dtype) -> None:
    record = gated(name)
    points = torch.tensor((-9.0, -7.0, -1.0, 0.0, 2.0, 7.0, 10.0), dtype=dtype)
    g, u = (t.flatten().requires_grad_() for t in torch.meshgrid(points, points, indexing="ij"))
    y = gate(g, u, name)
    by_gate, by_up = torch.autograd.grad(y.sum(), (g, u))
    wanted = record.slopes(g.detach(), u.detach())
    assert equal(y.detach(), record.value(g.detach(), u.detach()))
    assert equal(by_gate, wanted[0])
    assert equal(by_up, wanted[1])


@pytest.mark.parametrize("name", GATED)
def test_only_gate_and_up_are_kept(name: str) -> None:
    g, u = (torch.linspace(-4, 4, 64).requires_grad_() for _ in range(2))
    assert [t.data_ptr() for t in kept(lambda: gate(g, u, name))] == [g.data_ptr(), u.data_ptr()]
    assert len(kept(lambda: gated("swiglu").value(g, u))) > 2


@pytest.mark.parametrize("name", GATED)
def test_gated_with_one_half_or_none_needing_a_gradient(name: str) -> None:
    g, u = torch.linspace(-4, 4, 9), torch.linspace(2, -3, 9)
    wanted = gated(name)
    for which in (0, 1):
        halves = [g.clone(), u.clone()]
        halves[which].requires_grad_()
        gate(halves[0], halves[1], name).sum().backward()  # type: ignore[no-untyped-call]
        got = halves[which].grad
        assert got is not None
        assert equal(got, wanted.slopes(g, u)[which])
    with torch.inference_mode():
        assert equal(gate(g, u, name), wanted.value(g, u))


def test_gated_refusals() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(BadInput, match=r"one shape; got \(2, 3\) and \(3,\)"):
        gate(x, x[0], "swiglu")
    with pytest.raises(BadInput, match=r"one dtype; got torch\.float32 and torch\.float64"):
        gate(x, x.double(), "swiglu")
    with pytest.raises(BadInput, match=r"up must be floating point; got torch\.int64"):
        gate(x, x.long(), "swiglu")
    with pytest.raises(TypeError, match="gate must be a tensor; got float"):
        gate(1.0, x, "swiglu")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="silu is plain and takes one tensor"):
        gate(x, x, "silu")
    with pytest.raises(UnknownActivation):
        gate(x, x, "swigloo")
