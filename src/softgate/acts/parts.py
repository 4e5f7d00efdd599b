"""Small pieces that the torch formulas share: where NaN and infinity would otherwise go wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

Formula = Callable[..., Tensor]

_NARROW = (torch.float16, torch.bfloat16)


def widened(formula: Formula) -> Formula:
    """Let a formula of several operations compute 16-bit input in float32 and round once at the end.

    Rounding after every operation costs bfloat16 up to 6 % on ``x * sigmoid(1.702 x)``; other types are untouched.

    >>> widened(lambda x: x * 3 / 3)(torch.tensor([0.1], dtype=torch.bfloat16)).dtype
    torch.bfloat16
    """

    @functools.wraps(formula)
    def wide(x: Tensor, **params: float | Tensor) -> Tensor:
        if x.dtype in _NARROW:
            return formula(x.float(), **params).to(x.dtype)
        return formula(x, **params)

    return wide


def step(x: Tensor) -> Tensor:
    """1 where x > 0, 0 where x <= 0, NaN where x is NaN; same shape and dtype as x.

    A comparison would turn NaN into 0, and ``torch.where`` on random signs costs several times as much.

    >>> step(torch.tensor([-1.0, 0.0, 1e-45, float("nan")]))
    tensor([0., 0., 1., nan])
    """
    return x.clamp(0.0, 1.0).ceil_()


def flat(x: Tensor) -> Tensor:
    """0 everywhere, NaN where x is NaN; same shape and dtype as x.

    >>> flat(torch.tensor([-float("inf"), 2.0, float("nan")]))
    tensor([0., 0., nan])
    """
    return x.clamp(0.0, 1.0).mul_(0.0)
