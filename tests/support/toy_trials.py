"""Trial functions that tests hand to workers: quick, deterministic, or misbehaving on purpose."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

Report = Callable[[int, float], None]


def steady(arm: str, seed: int, steps: int, report: Report) -> dict[str, float]:
    """Loss from arm and seed alone: "a" beats "b" by 0.5, with a spread of 0.1."""
    noise = random.Random(f"{arm}/{seed}").gauss(0.0, 0.1)
    for step in range(0, steps + 1, max(steps // 4, 1)):
        report(step, 3.0 - step / max(steps, 1))
    return {"loss": {"a": 1.0, "b": 1.5}.get(arm, 2.0) + noise, "accuracy": 0.5}


def slow(arm: str, seed: int, steps: int, report: Report) -> dict[str, float]:
    """As steady, at 2 ms a step."""
    for step in range(steps):
        time.sleep(0.002)
        report(step, 2.0)
    return steady(arm, seed, steps, lambda step, loss: None)


def awkward(arm: str, seed: int, steps: int, report: Report) -> dict[str, object]:
    """Breaks the contract in the way its arm says; arm "good" does not."""
    print("printed to standard output, which must not reach the driver's")
    sys.stdout.flush()
    os.write(1, b"and so must not this\n")
    if arm == "raises":
        raise RuntimeError("planted\nfailure \x1b[31m")
    if arm == "exits":
        sys.exit(3)
    if arm == "interrupts":
        raise KeyboardInterrupt
    if arm == "reads":
        return {"loss": float(len(sys.stdin.read()))}
    if arm == "talks":
        for i in range(100_000):
            report(i, 1.0)
        return {"loss": 2.0}
    if arm == "no loss":
        return {"accuracy": 1.0}
    if arm == "not a number":
        return {"loss": "low"}
    if arm == "nan":
        return {"loss": float("nan"), "accuracy": float("inf")}
    if arm == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"loss": 1.0 + 0.001 * seed}


def dies_once(arm: str, seed: int, steps: int, report: Report) -> dict[str, float]:
    """Kills its own worker the first time seed 1 of arm "b" is run; the mark lies in the working directory."""
    mark = Path("died")
    if arm == "b" and seed == 1 and not mark.exists():
        mark.write_text("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return steady(arm, seed, steps, report)


not_callable = 3
