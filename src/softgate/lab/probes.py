"""Numbers about a trained model's activations. Probes measure and never judge, and they change no bit of the training.

Everything here runs without gradients, in eval mode, on held-out tokens, after training; nothing draws random numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softgate import acts
from softgate.lab.model import Block, LanguageModel

# Below which |f'| a pre-activation counts as "small slope"; the articles' "vanishing ratio" names no threshold.
SLOPES = ("1e-1", "1e-2", "1e-3", "1e-4", "1e-5", "1e-6")
# A unit is saturated when no token among all those seen gives |f'| of at least this.
SATURATED = 1e-2


class _Layer:
    """Running sums of one layer over batches; memory does not grow with the number of tokens."""

    def __init__(self, units: int) -> None:
        self.tokens = 0
        self.fired = torch.zeros(units, dtype=torch.bool)  # [units]
        self.steepest = torch.zeros(units)  # [units]
        self.small = torch.zeros(len(SLOPES), dtype=torch.float64)  # [slopes]
        self.pre_square = 0.0
        self.moments = torch.zeros(4, dtype=torch.float64)  # sums of h, h^2, h^3, h^4

    def add(self, z: Tensor, value: Tensor, slope: Tensor, hidden: Tensor) -> None:
        self.tokens += z.shape[0]
        self.fired |= (value > 0).any(0)
        steep = slope.abs()  # [tokens, units]
        torch.maximum(self.steepest, steep.amax(0), out=self.steepest)
        for i, bound in enumerate(SLOPES):
            self.small[i] += (steep < float(bound)).sum()
        self.pre_square += float(z.double().square().sum())
        h = hidden.double()
        for power in range(4):
            self.moments[power] += h.pow(power + 1).sum()

    def to_dict(self, layer: int) -> dict[str, Any]:
        units = self.fired.numel()
        count = self.tokens * units
        m1, m2, m3, m4 = (self.moments / count).tolist()
        variance = m2 - m1 * m1
        fourth = m4 - 4 * m1 * m3 + 6 * m1 * m1 * m2 - 3 * m1**4
        return {
            "layer": layer,
            "units": units,
            "dead": 1.0 - float(self.fired.double().mean()),
            "saturated": float((self.steepest < SATURATED).double().mean()),
            "small_slope": dict(zip(SLOPES, (self.small / count).tolist(), strict=True)),
            "pre_rms": (self.pre_square / count) ** 0.5,
            "rms": m2**0.5,
            "kurtosis": fourth / variance**2 if variance > 0 else None,
        }


@torch.no_grad()
def health(model: LanguageModel, activation: str, windows: Tensor, batch: int) -> dict[str, Any]:
    """Per layer: dead and saturated units, shares of small slopes, RMS and kurtosis of the hidden activations.

    dead: the activation was never positive in N tokens (for a gated FFN: that of the gate). `firing_upper` is the
    95 % upper bound of the firing rate of a unit that never fired in N tokens, 1 - 0.05^(1/N), about 3/N.
    saturated: |f'| stayed below 1e-2 on every token. kurtosis: of all hidden values of the layer; 3 for a Gaussian.

    windows [n, time] int64.
    """
    record = acts.get(activation)
    layers: dict[int, _Layer] = {}

    def observe(layer: int, block: Block, h: Tensor) -> None:
        ffn = block.ffn
        x = h.reshape(-1, h.shape[-1])  # [tokens, d]
        if isinstance(record, acts.GatedActivation):
            z = ffn.gate_proj(x)  # [tokens, units]
            inside = z if record.gate_max is None else z.clamp(max=record.gate_max)
            value, slope = (f(inside, **record.gate_params) for f in (record.gate.value, record.gate.slope))
            hidden = record.value(z, ffn.up_proj(x))  # [tokens, units]
        else:
            z = ffn.up_proj(x)  # [tokens, units]
            params = ffn.act_fn.effective()
            value, slope = record.value(z, **params), record.slope(z, **params)  # [tokens, units]
            hidden = value
        layers.setdefault(layer, _Layer(z.shape[1])).add(z, value, slope, hidden)

    was_training = model.training
    model.eval()
    for start in range(0, windows.shape[0], batch):
        model(windows[start : start + batch], observe)
    model.train(was_training)
    tokens = layers[0].tokens
    return {
        "tokens": tokens,
        "firing_upper": 1.0 - 0.05 ** (1.0 / tokens),
        "layers": [layers[i].to_dict(i) for i in sorted(layers)],
    }


def saved_bytes_per_token(model: LanguageModel, windows: Tensor) -> float:
    """Bytes that one training forward keeps for backward, a token; parameters are not counted.

    windows [n, time] int64.
    """
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(t: Tensor) -> None:
        # The storage and not the tensor, which holds the graph: a graph that holds itself is never freed, and each
        # trial would leave a forward pass (35 MB at width 64). Holding it keeps its address from being used again.
        storage = t.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage

    def unpack(packed: None) -> Tensor:
        raise AssertionError("nothing runs backward here")

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack), torch.random.fork_rng(devices=[]):
        model(windows)
    return sum(storage.nbytes() for storage in kept.values()) / windows.numel()
