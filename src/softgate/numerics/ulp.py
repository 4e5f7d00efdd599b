"""Errors counted in units in the last place."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def unit(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The spacing of `dtype` at |x|, in float64; below the normal range it is the smallest subnormal.

    Shape of x. NaN and infinity have the spacing of the largest number.

    >>> unit(torch.tensor([1.0, 1e-40], dtype=torch.float64), torch.float32).tolist()
    [1.1920928955078125e-07, 1.401298464324817e-45]
    """
    limits = torch.finfo(dtype)
    digits = 1 - round(math.log2(limits.eps))
    size = x.double().abs().nan_to_num(nan=limits.max, posinf=limits.max).clamp(max=limits.max)
    # frexp gives a fraction in [1/2, 1); of a float64 subnormal it is exact, too.
    exponent = torch.frexp(size).exponent.double()
    lowest = math.log2(limits.smallest_normal) - digits + 1
    return torch.exp2((exponent - digits).clamp(min=lowest).where(size > 0, lowest))


def distance(got: Tensor, want: Tensor) -> Tensor:
    """How far `got` is from `want`, in units in the last place of got's dtype at `want`; float64, same shape.

    `want` may be of a wider dtype than `got`, so that fractions of a unit count. Zero where both are NaN or the same
    infinity; infinity where only one is NaN, or where exactly one is infinite. A zero that should not be one is as far
    as it is: 2^23 units or more for a normal float32.

    >>> distance(torch.tensor([1.0, 0.0, float("nan")]), torch.tensor([1.0 + 2**-22, 1e-30, 1.0])).tolist()
    [2.0, 10633824.0, inf]
    """
    if got.shape != want.shape:
        raise ValueError(f"got and want have unequal shapes, {tuple(got.shape)} and {tuple(want.shape)}")
    a, b = got.double(), want.double()
    apart = (a - b).abs() / unit(b, got.dtype)
    same = (a == b) | (a.isnan() & b.isnan())
    broken = (a.isnan() != b.isnan()) | (a.isinf() != b.isinf())
    return apart.masked_fill(broken, math.inf).masked_fill(same, 0.0)
