"""What a trial is: frozen, serialisable settings, and the key under which a trial's result is stored.

Two trials with the same key are the same computation: the key is a hash over every setting that can change the
result, the text, and the source of the code that runs it.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

from softgate.errors import BadInput


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise BadInput(f"{name} {value} is too small; it must be at least {least}")


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decoder-only, pre-norm, byte-level Transformer with tied embeddings; its FFN is the arm's.

    >>> ModelSpec(d_model=32, heads=2).layers
    4
    """

    d_model: int = 64
    layers: int = 4
    heads: int = 4
    context: int = 64
    norm: Literal["layer", "rms"] = "layer"
    positions: Literal["learned", "rotary"] = "learned"
    dropout: float = 0.0
    bias: bool = False
    init: Literal["0.02", "he", "xavier", "own"] = "xavier"
    residual_scale: bool = True

    def __post_init__(self) -> None:
        _at_least("d_model", self.d_model, 8)
        _at_least("layers", self.layers, 1)
        _at_least("heads", self.heads, 1)
        _at_least("context", self.context, 2)
        if self.d_model % self.heads:
            raise BadInput(
                f"d_model {self.d_model} is not a multiple of heads {self.heads}; choose heads that divide it"
            )
        if self.positions == "rotary" and (self.d_model // self.heads) % 2:
            raise BadInput(
                f"rotary positions need an even head width, d_model / heads is {self.d_model // self.heads}; change one"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise BadInput(f"dropout {self.dropout} is not in [0, 1)")


class TrainSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """AdamW with linear warm-up, cosine decay and clipping; where the held-out loss is read.

    The curve is read on `curve_tokens` tokens at `curve_points` steps, the final loss on `final_tokens` tokens.
    """

    batch: int = 32
    warmup: float = 0.05
    final_lr: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    clip: float = 1.0
    curve_points: int = 16
    curve_tokens: int = 8192
    final_tokens: int = 65536

    def __post_init__(self) -> None:
        _at_least("batch", self.batch, 1)
        _at_least("curve_points", self.curve_points, 2)


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A model, its training, the first grid of learning rates, and the spread that planning assumes.

    `sd` is the standard deviation of a paired difference in nats/byte (two arms, one seed), measured; see docs/log.md.
    """

    model: ModelSpec
    train: TrainSpec
    learning_rates: tuple[float, ...]
    sd: float


# sd: of paired differences, measured; docs/log.md (2026-12-01) has the figures.
PRESETS: dict[str, Preset] = {
    "tiny": Preset(
        model=ModelSpec(d_model=32, layers=2, heads=2),
        train=TrainSpec(),
        learning_rates=(8e-3, 1.6e-2, 3.2e-2, 6.4e-2),
        sd=0.01,
    ),
    "small": Preset(
        model=ModelSpec(),
        train=TrainSpec(),
        learning_rates=(4e-3, 8e-3, 1.6e-2, 3.2e-2),
        sd=0.008,
    ),
    "base": Preset(
        model=ModelSpec(d_model=128, context=128),
        train=TrainSpec(batch=16),
        learning_rates=(2e-3, 4e-3, 8e-3, 1.6e-2),
        sd=0.008,
    ),
}

Phase = Literal["pilot", "final", "aa"]


class TrialSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One training run. `order_seed` differs from `seed` only in the A/A arm: same weights, other data order.

    `model`, `train`, `lr` and `text` are None for a user's own trial function, which `target` then names.
    """

    arm: str
    phase: Phase
    seed: int
    order_seed: int
    steps: int
    source: str
    lr: float | None = None
    model: ModelSpec | None = None
    train: TrainSpec | None = None
    text: str | None = None
    target: str | None = None

    @property
    def key(self) -> str:
        """Content address: a digest of every setting but the phase, which is a label."""
        body = msgspec.to_builtins(self)
        # The A/A arm is another order of the same computation; a pilot run is a shorter one: neither needs its label.
        del body["phase"]
        return digest(body)


class StudySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user asked for. A study file belongs to one of these; another one is refused.

    `budget`, `seeds`, `steps` and `lr` are as given (None where left to the plan). `budget` is a wish and not a bound
    when it is the default one (`default_budget`): a slow machine then runs the smallest plan and not none.
    """

    arms: tuple[str, ...]
    baseline: str
    margin: float
    alpha: float
    source: str
    unit: str
    budget: float | None
    default_budget: bool = False
    seeds: int | None
    steps: int | None
    lr: dict[str, float] | None
    learning_rates: tuple[float, ...]
    sd: float | None
    model: ModelSpec | None = None
    train: TrainSpec | None = None
    text_name: str | None = None
    text: str | None = None
    target: str | None = None

    def differences(self, other: StudySpec) -> list[str]:
        """The names of the fields in which two specs differ, in order."""
        return [f for f in self.__struct_fields__ if getattr(self, f) != getattr(other, f)]


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many runs of what length; made once, stored with the study and reused on every resume."""

    seeds: int
    steps: int
    pilot_seeds: int
    pilot_steps: int
    learning_rates: tuple[float, ...]
    workers: int
    budget_seconds: float | None
    predicted_seconds: float | None
    assumed_sd: float | None
    smallest_detectable: float | None
    smallest_detectable_sd: float
    seconds_per_step: dict[str, float]
    overhead_seconds: dict[str, float]
    larger: dict[str, float | None] | None
    source: str


def digest(value: Any) -> str:
    """SHA-256 (first 32 hex digits) of the canonical JSON of builtins or a Struct.

    >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:32]
