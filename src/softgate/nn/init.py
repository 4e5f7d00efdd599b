"""Initialisation that fits the activation."""

from __future__ import annotations

import math

import torch
from torch import nn

from softgate import theory


def gain(name: str) -> float:
    """g = 1 / sqrt(E f(z)^2), z ~ N(0, 1): weights N(0, g^2 / fan_in) behind f keep the second moment of the signal.

    It is what He's sqrt(2) is for ReLU; torch.nn.init.calculate_gain knows no GELU, SiLU or Mish. For a gated name f is
    the unit act(g) * u of independent halves. Raises UnknownActivation.

    >>> round(gain("relu"), 12), round(gain("gelu"), 12)
    (1.414213562373, 1.533530441196)

    Source: He et al. 2015, arXiv:1502.01852, with the activation's own second moment.
    """
    return theory.moments(name).gain


def init_(module: nn.Module, name: str, generator: torch.Generator | None = None) -> nn.Module:
    """Redraw every Linear in `module`, itself and its children: weight N(0, gain(name)^2 / fan_in), bias 0. In place.

    Weights [fan_out, fan_in] keep dtype and device; everything that is not a Linear is left alone. Returns `module`.
    Raises UnknownActivation before anything is changed.

    >>> layer = init_(nn.Linear(1000, 400), "relu", torch.Generator().manual_seed(0))
    >>> bool(abs(layer.weight.std() * 1000**0.5 / gain("relu") - 1) < 0.01), bool(layer.bias.any())
    (True, False)
    """
    wanted = gain(name)
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=wanted / math.sqrt(part.in_features), generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module
