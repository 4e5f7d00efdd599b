"""Activations as differentiable functions that keep only their inputs for the backward pass.

Value, first and second derivative are the record's own formulas: gradients are as accurate as the records, and no
intermediate of a formula is kept. Only a third derivative is left to torch's autograd.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from softgate import acts
from softgate.errors import BadInput
from softgate.theory import check_params


def activate(x: Tensor, record: acts.Activation | str, **params: float | Tensor) -> Tensor:
    """y = f(x), elementwise, for a plain record or its name; x [...] of any floating dtype, y of the same.

    Keeps x and nothing else for backward; twice differentiable by the record's own derivatives. `params` replace the
    record's defaults. A parameter may be a tensor of x's dtype that broadcasts against x, and then gets a gradient too;
    in that case autograd goes through the record's formula and keeps what it needs.

    Raises TypeError unless x is a tensor, BadInput for an integer, boolean or complex x, a gated record or a parameter
    that the record does not have, UnknownActivation for an unknown name.

    >>> x = torch.tensor([-1.0, 2.0], requires_grad=True)
    >>> y = activate(x, "relu2")
    >>> y.sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([0.0, 4.0], [0.0, 4.0])
    """
    chosen = plain(record)
    check_floating(chosen.name, x=x)
    check_params(chosen, params)
    if any(isinstance(value, Tensor) for value in params.values()):
        return chosen.value(x, **params)
    result: Tensor = _Value.apply(x, chosen, params)  # type: ignore[no-untyped-call]
    return result


def gate(gate: Tensor, up: Tensor, record: acts.GatedActivation | str) -> Tensor:
    """y = act(gate) * up for a gated record or its name (with its bounds and offset); gate, up and y [...], one dtype.

    Keeps gate and up and nothing else for backward; twice differentiable by the record's own derivatives.

    Raises TypeError unless both are tensors, BadInput for unequal shapes or dtypes, an integer, boolean or complex
    dtype, or a plain record, UnknownActivation for an unknown name.

    >>> gate(torch.tensor([-1.0, 2.0]), torch.tensor([3.0, 3.0]), "reglu")
    tensor([0., 6.])
    """
    chosen = acts.get(record) if isinstance(record, str) else record
    if not isinstance(chosen, acts.GatedActivation):
        raise BadInput(f"{chosen.name} is plain and takes one tensor: use activate(), or one of {_gated_names()}")
    check_floating(chosen.name, gate=gate, up=up)
    if gate.shape != up.shape:
        raise BadInput(f"{chosen.name}: gate and up must have one shape; got {tuple(gate.shape)} and {tuple(up.shape)}")
    if gate.dtype != up.dtype:
        raise BadInput(f"{chosen.name}: gate and up must have one dtype; got {gate.dtype} and {up.dtype}")
    result: Tensor = _Product.apply(gate, up, chosen)  # type: ignore[no-untyped-call]
    return result


def plain(record: acts.Activation | acts.GatedActivation | str) -> acts.Activation:
    """The plain record itself or of that name; raises BadInput when it is a gated one.

    >>> plain("swish").name
    'silu'
    """
    chosen = acts.get(record) if isinstance(record, str) else record
    if not isinstance(chosen, acts.Activation):
        raise BadInput(f"{chosen.name} is gated and takes two tensors: use functional.gate(), or an FFN")
    return chosen


def check_floating(name: str, **tensors: Tensor) -> None:
    """Raise TypeError for what is not a tensor, BadInput for a tensor that is not real floating point."""
    for label, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: {label} must be a tensor; got {type(tensor).__name__}")
        if not tensor.is_floating_point():
            raise BadInput(f"{name}: {label} must be floating point; got {tensor.dtype}, so convert it first")


def _gated_names() -> str:
    return ", ".join(acts.names(gated=True))


def _fresh(y: Tensor, *inputs: Tensor) -> Tensor:
    """y, or its alias where it is one of the inputs: autograd lets no function save what it also returns."""
    return y.detach() if any(y is x for x in inputs) else y


class _Value(torch.autograd.Function):
    """f(x); its derivative is a function of its own, so that the second derivative is the record's as well."""

    @staticmethod
    def forward(x: Tensor, record: acts.Activation, params: Mapping[str, float]) -> Tensor:
        return _fresh(record.value(x, **params), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.record, ctx.params = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return grad * _Slope.apply(x, ctx.record, ctx.params), None, None  # type: ignore[no-untyped-call]


class _Slope(torch.autograd.Function):
    """f'(x); backward is plain torch, which carries on to the third derivative."""

    @staticmethod
    def forward(x: Tensor, record: acts.Activation, params: Mapping[str, float]) -> Tensor:
        return record.slope(x, **params)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.record, ctx.params = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return grad * ctx.record.curvature(x, **ctx.params), None, None


class _Product(torch.autograd.Function):
    """f(gate, up); both partial derivatives are one function of their own."""

    @staticmethod
    def forward(gate: Tensor, up: Tensor, record: acts.GatedActivation) -> Tensor:
        return record.value(gate, up)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        gate, up, ctx.record = inputs
        ctx.save_for_backward(gate, up)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        gate, up = ctx.saved_tensors
        by_gate, by_up = _Partials.apply(gate, up, ctx.record)  # type: ignore[no-untyped-call]
        return grad * by_gate, grad * by_up, None


class _Partials(torch.autograd.Function):
    """(df/dgate, df/dup); backward is plain torch, which carries on to the third derivatives."""

    @staticmethod
    def forward(gate: Tensor, up: Tensor, record: acts.GatedActivation) -> tuple[Tensor, Tensor]:
        by_gate, by_up = record.slopes(gate, up)
        return _fresh(by_gate, gate, up), _fresh(by_up, gate, up)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        gate, up, ctx.record = inputs
        ctx.save_for_backward(gate, up)

    @staticmethod
    def backward(ctx: Any, by_gate: Tensor, by_up: Tensor) -> tuple[Tensor, Tensor, None]:
        gate, up = ctx.saved_tensors
        gate_gate, gate_up, up_up = ctx.record.curvatures(gate, up)
        return by_gate * gate_gate + by_up * gate_up, by_gate * gate_up + by_up * up_up, None
