"""Activations as modules, with learnable parameters where the record has them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softgate import acts
from softgate.errors import BadInput
from softgate.nn.functional import activate, plain
from softgate.theory import parameters


class Activation(nn.Module):
    """y = f(x) for a plain activation by name or alias; x and y [...], one floating dtype.

    `params` replace the record's defaults. Learnable parameters are tensors [1] of the module and appear in its
    state_dict: ``prelu`` has `weight` (0.25), of `dtype`. ``xielu`` has `alpha_p` and `alpha_n`, always made in
    float32, in the raw form of Hugging Face's checkpoints; what the function sees is softplus(alpha_p) and
    beta + softplus(alpha_n), 0.8 and 0.8 at the start, with beta 0.5. `params` are effective values, never raw ones.

    Raises UnknownActivation, and BadInput for a gated name, a parameter the record does not have, a value that is not a
    finite number, or one that xielu's raw form cannot hold.

    >>> Activation("gelu_new")
    Activation('gelu_tanh')
    >>> Activation("elu", alpha=0.5)(torch.tensor([0.0, 2.0]))
    tensor([0., 2.])
    >>> sorted(Activation("xielu").state_dict())
    ['alpha_n', 'alpha_p']

    Source of xielu's raw form: Huang and Schlag 2024, arXiv:2411.13010.
    """

    def __init__(
        self,
        name: str,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **params: float,
    ) -> None:
        super().__init__()
        record = plain(name)
        # The name and not the record: a module must survive pickling and copying, and formulas do not.
        self.name = record.name
        chosen = parameters(record, params)
        self.fixed = {label: value for label, value in chosen.items() if label not in record.learnable}
        if self.name == "xielu":
            chosen["alpha_p"] = _raw("alpha_p", chosen["alpha_p"])
            chosen["alpha_n"] = _raw("alpha_n - beta", chosen["alpha_n"] - self.fixed["beta"])
            dtype = torch.float32
        for label in record.learnable:
            self.register_parameter(label, nn.Parameter(torch.full((1,), chosen[label], device=device, dtype=dtype)))

    @property
    def record(self) -> acts.Activation:
        """The record behind the name."""
        return plain(self.name)

    def effective(self) -> dict[str, float | Tensor]:
        """The parameters as the function takes them: numbers, and tensors [1] for learnable ones.

        >>> round(Activation("xielu").effective()["alpha_n"].item(), 6)
        0.8
        """
        learnt: dict[str, Tensor] = dict(self.named_parameters(recurse=False))
        if self.name == "xielu":
            learnt = {
                "alpha_p": F.softplus(learnt["alpha_p"]),
                "alpha_n": F.softplus(learnt["alpha_n"]) + self.fixed["beta"],
            }
        return {**self.fixed, **learnt}

    def forward(self, x: Tensor) -> Tensor:
        """f(x); raises as `functional.activate`."""
        # Learnable parameters keep their own dtype; the result must have that of x.
        params = {k: v.to(x.dtype) if isinstance(v, Tensor) else v for k, v in self.effective().items()}
        return activate(x, self.record, **params)

    def extra_repr(self) -> str:
        """The canonical name, and the fixed parameters where they are not the record's defaults."""
        defaults = self.record.params
        changed = (f"{label}={value:g}" for label, value in self.fixed.items() if value != defaults[label])
        return ", ".join([repr(self.name), *changed])


def _raw(label: str, effective: float) -> float:
    """The number whose softplus is `effective`."""
    if effective <= 0.0:
        raise BadInput(f"xielu: {label} must be above 0, for it is a softplus; got {effective:g}")
    # log(expm1(a)) without the overflow of expm1.
    return effective + math.log(-math.expm1(-effective))
