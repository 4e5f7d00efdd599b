"""The two kinds of trial a worker can run: the lab's own language model, and a user's function.

Both take a TrialSpec and give a dictionary of builtins with at least status, reason, loss, curve and train_seconds.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from softgate.errors import TrialError, clean
from softgate.lab.spec import TrialSpec

Report = Callable[[int, float], None]

# A curve that reports every step of a long run is thinned, evenly, so that a study and its report stay small.
MOST_POINTS = 1000


class Trials(Protocol):
    """What a worker runs."""

    def run(self, spec: TrialSpec, report: Report) -> dict[str, Any]:
        """Run one trial; `report(step, loss)` on the way."""

    def calibrate(self, spec: TrialSpec) -> dict[str, float]:
        """Seconds a step ("step") and seconds a trial besides its steps ("overhead"), for planning."""


class ModelTrials:
    """The lab's language model on prepared text: `path` holds the training bytes, then the held-out bytes."""

    def __init__(self, path: str, train_bytes: int) -> None:
        import numpy as np
        import torch

        from softgate.lab import train

        torch.set_num_threads(1)
        data = torch.from_numpy(np.fromfile(path, dtype=np.uint8))  # [n] uint8
        self._train = train
        self._text = train.Text(data[:train_bytes], data[train_bytes:])

    def run(self, spec: TrialSpec, report: Report) -> dict[str, Any]:
        return self._train.run(spec, self._text, report)

    def calibrate(self, spec: TrialSpec) -> dict[str, float]:
        return self._train.calibrate(spec, self._text)


class UserTrials:
    """A user's ``function(arm, seed, steps, report) -> metrics``.

    metrics: a mapping of names to numbers with at least "loss" (lower is better). A loss that is not finite is a
    diverged trial, not an error. Raises TrialError when the contract is broken.
    """

    def __init__(self, target: str) -> None:
        self._function = resolve(target)

    def run(self, spec: TrialSpec, report: Report) -> dict[str, Any]:
        curve: dict[str, list[float]] = {"step": [], "loss": [], "seconds": []}
        begin = time.perf_counter()
        calls = 0
        stride = 1  # every stride-th call is kept

        def note(step: int, loss: float) -> None:
            nonlocal calls, stride
            step, loss = int(step), float(loss)
            calls += 1
            if not math.isfinite(loss):
                return
            if (calls - 1) % stride == 0:
                for column, value in zip(curve.values(), (step, loss, time.perf_counter() - begin), strict=True):
                    column.append(value)
                if len(curve["step"]) >= MOST_POINTS:
                    stride *= 2
                    for column in curve.values():
                        del column[1::2]
            report(step, loss)

        metrics = self._function(spec.arm, spec.seed, spec.steps, note)
        seconds = time.perf_counter() - begin
        if not isinstance(metrics, dict) or "loss" not in metrics:
            raise TrialError(f'the trial returned {clean(repr(metrics))}; expected a dict of numbers with a key "loss"')
        try:
            numbers = {str(name): float(value) for name, value in metrics.items()}
        except (TypeError, ValueError):
            raise TrialError(f"the trial returned {clean(repr(metrics))}; every value must be a number") from None
        loss = numbers.pop("loss")
        finite = math.isfinite(loss)
        return {
            "status": "ok" if finite else "diverged",
            "reason": None if finite else f"the trial's loss is {loss}",
            "loss": loss if finite else None,
            "curve": curve,
            "train_seconds": seconds,
            "metrics": {name: value if math.isfinite(value) else None for name, value in numbers.items()},
        }

    def calibrate(self, spec: TrialSpec) -> dict[str, float]:
        """Two short runs, of 4 and of 12 steps, and the line through their times."""
        times = []
        for steps in (4, 12):
            begin = time.perf_counter()
            self._function(spec.arm, spec.seed, steps, lambda step, loss: None)
            times.append(time.perf_counter() - begin)
        step = max((times[1] - times[0]) / 8, times[1] / 100)
        return {"step": step, "overhead": max(times[0] - 4 * step, 0.0)}


def resolve(target: str) -> Callable[..., Any]:
    """The function named by ``module:function`` or ``path/to/file.py:function``.

    >>> resolve("math:sqrt")(9.0)
    3.0

    Raises TrialError when it cannot be imported or is not callable.
    """
    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise TrialError(f"'{clean(target)}' does not name a trial; write module:function or file.py:function")
    try:
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(f"softgate_trial_{Path(module_name).stem}", module_name)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(module_name)
    except Exception as error:
        reason = clean("".join(traceback.format_exception_only(error)), 200)
        raise TrialError(f"cannot import the trial's module '{clean(module_name)}': {reason}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise TrialError(
            f"'{clean(module_name)}' has no function '{clean(name)}'; name one that takes (arm, seed, steps, report)"
        )
    return function  # type: ignore[no-any-return]
