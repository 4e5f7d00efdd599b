"""Gated functions ``act(gate) * up``: the family of GLU. A record is a plain record and what is done around it."""

from __future__ import annotations

from softgate.acts.piecewise import IDENTITY, RELU
from softgate.acts.sigmoidal import SIGMOID
from softgate.acts.smooth import GELU, GELU_SIGMOID, GELU_TANH, SILU
from softgate.acts.spec import GatedActivation

_SHAZEER = "Shazeer, GLU Variants Improve Transformer, 2020, arXiv:2002.05202"

GLU = GatedActivation(
    name="glu",
    title="Gated linear unit, gate first",
    formula="sigmoid(gate) * up",
    latex=r"\sigma(g)\,u",
    gate=SIGMOID,
    aliases=("sigmoid_glu",),
    reference="Dauphin et al., Language Modeling with Gated Convolutional Networks, 2017, arXiv:1612.08083; "
    "torch.nn.functional.glu packs the gate second",
)

BILINEAR = GatedActivation(
    name="bilinear",
    title="Bilinear layer",
    formula="gate * up",
    latex=r"g\,u",
    gate=IDENTITY,
    aliases=("bilinear_glu",),
    reference=_SHAZEER,
)

REGLU = GatedActivation(
    name="reglu",
    title="GLU with a ReLU gate",
    formula="max(gate, 0) * up",
    latex=r"\max(g, 0)\,u",
    gate=RELU,
    aliases=("relu_glu",),
    reference=_SHAZEER,
)

GEGLU = GatedActivation(
    name="geglu",
    title="GLU with a GELU gate",
    formula="gate * Phi(gate) * up",
    latex=r"g\,\Phi(g)\,u",
    gate=GELU,
    aliases=("gelu_glu",),
    reference=_SHAZEER,
)

GEGLU_TANH = GatedActivation(
    name="geglu_tanh",
    title="GLU with a tanh-GELU gate",
    formula="0.5 * gate * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 * gate^3))) * up",
    latex=r"\tfrac12 g\left(1+\tanh\left(\sqrt{2/\pi}\,(g+0.044715\,g^3)\right)\right)u",
    gate=GELU_TANH,
    aliases=("gelu_tanh_glu",),
    reference=f"{_SHAZEER}; the form of T5 1.1 and Gemma",
)

SWIGLU = GatedActivation(
    name="swiglu",
    title="GLU with a SiLU gate",
    formula="gate * sigmoid(gate) * up",
    latex=r"g\,\sigma(g)\,u",
    gate=SILU,
    aliases=("silu_glu", "swish_glu"),
    reference=_SHAZEER,
)

SWIGLU_OAI = GatedActivation(
    name="swiglu_oai",
    title="SwiGLU of gpt-oss: clamped, sigmoid slope 1.702, one added to the linear half",
    formula="min(gate, 7) * sigmoid(1.702 * min(gate, 7)) * (max(min(up, 7), -7) + 1)",
    latex=r"\hat g\,\sigma(1.702\,\hat g)\,(\hat u+1),\quad \hat g=\min(g,7),\ \hat u=\max(\min(u,7),-7)",
    gate=GELU_SIGMOID,
    gate_max=7.0,
    up_limit=7.0,
    offset=1.0,
    order="interleaved",
    aliases=("gpt_oss", "swigluoai", "swiglu_gpt_oss"),
    reference="OpenAI, gpt-oss-120b and gpt-oss-20b model card, 2025, arXiv:2508.10925",
)
