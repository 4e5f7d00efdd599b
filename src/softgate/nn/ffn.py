"""The feed-forward block of a Transformer, around any activation, gated or plain, and its fair width."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor, nn

from softgate import acts
from softgate.errors import BadInput, clean
from softgate.nn.functional import check_floating, gate
from softgate.nn.modules import Activation

# Widths are multiples of the largest of these that keeps the parameter count within the tolerance.
_MULTIPLES = (8, 4, 2, 1)
_TOLERANCE = Fraction(5, 1000)


def hidden_width(d_model: int, *, gated: bool, bias: bool) -> int:
    """Hidden units of a block with as many parameters as the plain block of width 4 d_model, within 0.5 %.

    A plain block has 2 d h weights (and h + d biases), a gated one 3 d h (and 2 h + d). The width is the nearest
    multiple of the largest m in 8, 4, 2, 1 that meets the tolerance. The plain block is the yardstick: 4 d_model.

    Raises BadInput, which is a ValueError, naming both nearest widths when even m = 1 misses.

    >>> hidden_width(768, gated=True, bias=False), hidden_width(64, gated=True, bias=False)
    (2048, 170)

    Source of the ratio 2/3: Shazeer 2020, arXiv:2002.05202.
    """
    _check_width("d_model", d_model)
    target = _parameters(d_model, 4 * d_model, gated=False, bias=bias)
    if not gated:
        return 4 * d_model
    fixed = _parameters(d_model, 0, gated=True, bias=bias)
    exact = Fraction(target - fixed, _parameters(d_model, 1, gated=True, bias=bias) - fixed)

    def error(width: int) -> Fraction:
        return Fraction(_parameters(d_model, width, gated=True, bias=bias), target) - 1

    for multiple in _MULTIPLES:
        width = multiple * int(exact / multiple + Fraction(1, 2))
        if width > 0 and abs(error(width)) <= _TOLERANCE:
            return width
    below = int(exact)
    near = " and ".join(f"{h} ({float(error(h)):+.2%} parameters)" for h in (below, below + 1))
    raise BadInput(
        f"d_model {d_model}: no gated width has within 0.5 % of the parameters of the plain block of width "
        f"{4 * d_model}; the nearest are {near}: give d_ff, or a larger d_model"
    )


class FFN(nn.Module):
    """y = down_proj(dropout(f(up_proj(x)))), or down_proj(dropout(act(gate_proj(x)) * up_proj(x))) for a gated name.

    x and y [..., d_model] of any batch rank; weights `up_proj` and `gate_proj` [d_ff, d_model], `down_proj`
    [d_model, d_ff], named as Hugging Face names them. Dropout acts on the hidden activations. A plain activation is the
    child `act_fn`, which holds its learnable parameters if it has any.

    `d_ff` is the real hidden width. Without it the width is `hidden_width(...)`, so that gated and plain blocks have
    equally many parameters; with match_params=False it is 4 d_model.

    Raises UnknownActivation, and BadInput for a width that is not a positive whole number, for a d_model where no
    gated width matches, or for an input of another last dimension or of a dtype that is not floating point.

    >>> ffn = FFN(64)
    >>> ffn.d_ff, ffn(torch.zeros(2, 3, 64)).shape
    (170, torch.Size([2, 3, 64]))
    >>> FFN(64, activation="gelu").d_ff
    256

    Source: Vaswani et al. 2017, arXiv:1706.03762; gated: Shazeer 2020, arXiv:2002.05202.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        activation: str = "swiglu",
        bias: bool = False,
        dropout: float = 0.0,
        match_params: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_width("d_model", d_model)
        record = acts.get(activation)
        if d_ff is None:
            d_ff = hidden_width(d_model, gated=record.gated, bias=bias) if match_params else 4 * d_model
        _check_width("d_ff", d_ff)
        self.d_model = d_model
        self.d_ff = d_ff
        self.activation = record.name
        self.gated = record.gated
        if record.gated:
            self.gate_proj = nn.Linear(d_model, d_ff, bias=bias, device=device, dtype=dtype)
        else:
            self.act_fn = Activation(record.name, device=device, dtype=dtype)
        self.up_proj = nn.Linear(d_model, d_ff, bias=bias, device=device, dtype=dtype)
        self.down_proj = nn.Linear(d_ff, d_model, bias=bias, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """The block at x [..., d_model]."""
        check_floating("FFN", x=x)
        if x.shape[-1:] != (self.d_model,):
            raise BadInput(f"FFN: the last dimension of x must be d_model = {self.d_model}; got {tuple(x.shape)}")
        up = self.up_proj(x)  # [..., d_ff]
        hidden = gate(self.gate_proj(x), up, self.activation) if self.gated else self.act_fn(up)  # [..., d_ff]
        y: Tensor = self.down_proj(self.dropout(hidden))  # [..., d_model]
        return y

    def extra_repr(self) -> str:
        """Widths and activation, which the children do not say together."""
        return f"d_model={self.d_model}, d_ff={self.d_ff}, activation={self.activation!r}"


def _parameters(d_model: int, width: int, *, gated: bool, bias: bool) -> int:
    """Number of weights, and of biases if there are any, of a block."""
    into = 2 if gated else 1
    return (into + 1) * d_model * width + (into * width + d_model if bias else 0)


def _check_width(label: str, width: object) -> None:
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise BadInput(f"{label} must be a whole number, 1 or more; got {clean(width)}")
