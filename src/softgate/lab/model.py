"""The lab's model: decoder-only, pre-norm, byte-level, tied embeddings; the FFN is left open to any record.

Initial weights are drawn parameter by parameter from a generator seeded by (seed, parameter name), so that two arms
hold equal tensors wherever name and shape agree, whatever else differs between them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softgate import acts
from softgate.lab.spec import ModelSpec
from softgate.nn.ffn import FFN
from softgate.theory import moments

VOCABULARY = 256  # bytes

Observer = Callable[[int, "Block", Tensor], None]


class Attention(nn.Module):
    """Causal multi-head self-attention."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        d = spec.d_model
        self.heads = spec.heads
        self.dropout = spec.dropout
        self.qkv_proj = nn.Linear(d, 3 * d, bias=spec.bias)
        self.out_proj = nn.Linear(d, d, bias=spec.bias)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        b, t, d = x.shape
        qkv = self.qkv_proj(x).view(b, t, 3, self.heads, d // self.heads)  # [b, t, 3, h, d/h]
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))  # [b, h, t, d/h]
        if rotation is not None:
            q, k = _rotate(q, *rotation), _rotate(k, *rotation)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        out: Tensor = self.out_proj(y.transpose(1, 2).reshape(b, t, d))  # [b, t, d]
        return out


class Block(nn.Module):
    """x + attention(norm(x)), then x + ffn(norm(x))."""

    def __init__(self, spec: ModelSpec, activation: str) -> None:
        super().__init__()
        self.attention_norm = _norm(spec)
        self.attention = Attention(spec)
        self.ffn_norm = _norm(spec)
        self.ffn = FFN(spec.d_model, activation=activation, bias=spec.bias, dropout=spec.dropout)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self, x: Tensor, rotation: tuple[Tensor, Tensor] | None, layer: int, observe: Observer | None
    ) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), rotation))  # [b, t, d]
        h = self.ffn_norm(x)  # [b, t, d]
        if observe is not None:
            observe(layer, self, h)
        out: Tensor = x + self.dropout(self.ffn(h))  # [b, t, d]
        return out


class LanguageModel(nn.Module):
    """Byte-level language model; `forward(tokens)` gives logits.

    Shapes: tokens [batch, time] int64, logits [batch, time, 256].

    >>> from softgate.lab.spec import ModelSpec
    >>> model = LanguageModel(ModelSpec(d_model=16, layers=1, heads=2, context=8), "gelu", seed=0)
    >>> model(torch.zeros(2, 8, dtype=torch.int64)).shape
    torch.Size([2, 8, 256])
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, spec: ModelSpec, activation: str, *, seed: int) -> None:
        super().__init__()
        self.spec = spec
        self.embedding = nn.Embedding(VOCABULARY, spec.d_model)
        self.position = nn.Embedding(spec.context, spec.d_model) if spec.positions == "learned" else None
        self.dropout = nn.Dropout(spec.dropout)
        self.blocks = nn.ModuleList(Block(spec, activation) for _ in range(spec.layers))
        self.norm = _norm(spec)
        if spec.positions == "rotary":
            cos, sin = _rotation(spec)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)
        initialise_(self, spec, activation, seed)

    def forward(self, tokens: Tensor, observe: Observer | None = None) -> Tensor:
        t = tokens.shape[1]
        x = self.embedding(tokens)  # [b, t, d]
        rotation = None
        if self.position is not None:
            x = x + self.position.weight[:t]  # [b, t, d]
        else:
            rotation = (self.cos[:t], self.sin[:t])
        x = self.dropout(x)
        for layer, block in enumerate(self.blocks):
            x = block(x, rotation, layer, observe)
        return F.linear(self.norm(x), self.embedding.weight)  # [b, t, 256]

    def ffns(self) -> list[FFN]:
        """The FFN of every block, first to last."""
        return [cast(Block, block).ffn for block in self.blocks]

    def parameter_count(self) -> int:
        """Number of trainable elements; the tied head is counted once."""
        return sum(p.numel() for p in self.parameters())


def initialise_(model: LanguageModel, spec: ModelSpec, activation: str, seed: int) -> None:
    """Draw every weight from its own generator; scale by the scheme; biases 0, norms 1.

    Schemes (variance of a linear weight): "0.02": 0.02^2; "he": 2 / fan_in; "xavier": 2 / (fan_in + fan_out);
    "own": 1 / fan_in, and gain^2 / fan_in behind the activation with the arm's own gain. Embeddings have variance 1 / d
    (0.02^2 in the scheme "0.02").
    With `residual_scale` the projections that write to the residual stream are divided by sqrt(2 layers) (GPT-2).
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            # Unit variance of the tied logits at the start. At 0.02 (GPT-2's, kept in its scheme) a width of 32 learns
            # late and at a random moment: held-out 2.34 after 400 steps with a spread over seeds of 0.035, not 2.09
            # and 0.011, which drowns every effect (docs/log.md).
            std = 0.02 if spec.init == "0.02" else 1.0 / math.sqrt(spec.d_model)
            _draw(module.weight, std, seed, name)
        elif isinstance(module, nn.Linear):
            std = _std(spec.init, module, activation if name.endswith("down_proj") else None)
            if spec.residual_scale and name.endswith(("out_proj", "down_proj")):
                std /= math.sqrt(2 * spec.layers)
            _draw(module.weight, std, seed, name)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _std(scheme: str, linear: nn.Linear, behind: str | None) -> float:
    fan_in, fan_out = linear.in_features, linear.out_features
    if scheme == "0.02":
        return 0.02
    if scheme == "he":
        return math.sqrt(2.0 / fan_in)
    if scheme == "xavier":
        return math.sqrt(2.0 / (fan_in + fan_out))
    gain = 1.0 if behind is None else moments(acts.get(behind).name).gain
    return gain / math.sqrt(fan_in)


def _draw(weight: Tensor, std: float, seed: int, name: str) -> None:
    words = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(words[:8], "little") & 0x7FFF_FFFF_FFFF_FFFF)
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=generator) * std)


def _norm(spec: ModelSpec) -> nn.Module:
    if spec.norm == "layer":
        return nn.LayerNorm(spec.d_model, bias=spec.bias)
    return nn.RMSNorm(spec.d_model, eps=1e-5)


def _rotation(spec: ModelSpec) -> tuple[Tensor, Tensor]:
    width = spec.d_model // spec.heads
    rate = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)  # [d/2h]
    angle = torch.arange(spec.context, dtype=torch.float32)[:, None] * rate  # [context, d/2h]
    return angle.cos(), angle.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)  # each [b, h, t, d/2h]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)  # [b, h, t, d/h]
