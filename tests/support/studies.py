"""Shared pieces of the lab's tests: a small study, a plan for it, trials made from numbers."""

from collections.abc import Callable
from typing import Any

import msgspec

from softgate.lab import design
from softgate.lab.spec import ModelSpec, Plan, StudySpec, TrainSpec, TrialSpec
from softgate.lab.store import Trial


def make_study(**changes: Any) -> StudySpec:
    base = StudySpec(
        arms=("relu", "gelu", "swiglu"),
        baseline="relu",
        margin=0.01,
        alpha=0.05,
        source="source",
        unit="nats/byte",
        budget=None,
        seeds=4,
        steps=100,
        lr=None,
        learning_rates=(1e-3, 2e-3, 4e-3),
        sd=0.01,
        model=ModelSpec(d_model=24, layers=1, heads=2, context=16),
        train=TrainSpec(batch=4, curve_points=4, curve_tokens=256, final_tokens=512),
        text_name="text",
        text="hash",
    )
    return msgspec.structs.replace(base, **changes)


def make_plan(**changes: Any) -> Plan:
    base = Plan(
        seeds=4,
        steps=100,
        pilot_seeds=1,
        pilot_steps=50,
        learning_rates=(1e-3, 2e-3, 4e-3),
        workers=2,
        budget_seconds=None,
        predicted_seconds=None,
        assumed_sd=0.01,
        smallest_detectable=0.02,
        smallest_detectable_sd=2.0,
        seconds_per_step={},
        overhead_seconds={},
        larger=None,
        source="source",
    )
    return msgspec.structs.replace(base, **changes)


def make_trial(spec: TrialSpec, loss: float | None, status: str = "ok", finished: float = 10.0, **result: Any) -> Trial:
    start = 0.5 if loss is None else loss + 2.0
    body = {
        "status": status,
        "reason": None if status == "ok" else f"planted {status}",
        "loss": loss,
        "curve": {"step": [0, 50, 100], "loss": [start, start - 1.5, start - 2.0], "seconds": [0.0, 1.0, 2.0]},
        "parameters": 1000,
        "d_ff": 96,
        "train_seconds": 2.0,
        "tokens_per_second": 1000.0,
        "peak_memory_bytes": 10**8,
        "spikes_per_1000": 0.0,
        **result,
    }
    return Trial(
        spec=spec,
        status=status,
        result=body,
        environment={"text_hash": "hash"},
        session=1,
        seconds=2.0,
        finished=finished,
    )


LossOf = Callable[[TrialSpec], float | None]


def complete(study: StudySpec, plan: Plan, loss_of: LossOf) -> tuple[dict[str, float | None], list[TrialSpec]]:
    """Run the design to its end with losses from a function; returns losses by key and the trials in order."""
    losses: dict[str, float | None] = {}
    order: list[TrialSpec] = []
    while todo := design.needed(study, plan, losses):
        losses[todo[0].key] = loss_of(todo[0])
        order.append(todo[0])
    return losses, order
