"""One training run, bit for bit the same whoever runs it: seeds in, a dictionary of builtins out."""

from __future__ import annotations

import contextlib
import ctypes
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from softgate.lab import probes
from softgate.lab.model import LanguageModel
from softgate.lab.spec import TrainSpec, TrialSpec

Report = Callable[[int, float], None]

# A step is a spike when its loss lies this many robust standard deviations above the median of the steps before it.
SPIKE_WINDOW = 50
SPIKE_SIGMAS = 6.0


class Text:
    """Training and held-out bytes as tensors of int64-ready uint8.

    train [n] uint8, held_out [m] uint8.
    """

    def __init__(self, train: Tensor, held_out: Tensor) -> None:
        self.train = train
        self.held_out = held_out

    def windows(self, tokens: int, context: int) -> Tensor:
        """Evenly spaced held-out windows of context + 1 bytes, the same for every arm; [n, context + 1] int64."""
        room = self.held_out.numel() - context - 1
        count = max(1, min(tokens // context, room // context))
        starts = (torch.arange(count, dtype=torch.float64) * (room / count)).long()  # [n]
        return self.held_out[starts[:, None] + torch.arange(context + 1)].long()


def run(spec: TrialSpec, text: Text, report: Report, *, measure: bool = True) -> dict[str, Any]:
    """Train `spec` on `text`; `report(step, loss)` is called at every curve point.

    Returns builtins only: status "ok" or "diverged", loss (held-out nats/byte), curve, times, health. `measure=False`
    leaves the probes out; the losses are the same bits.
    """
    assert spec.model is not None
    assert spec.train is not None
    assert spec.lr is not None
    shape, settings = spec.model, spec.train
    _reset_peak_memory()
    torch.manual_seed(spec.order_seed)  # dropout
    order = torch.Generator().manual_seed(spec.order_seed)
    model = LanguageModel(shape, spec.arm, seed=spec.seed)
    optimizer, schedule = _optimizer(model, settings, spec.lr, spec.steps)
    curve_windows = text.windows(settings.curve_tokens, shape.context)  # [n, context + 1]
    points = _points(spec.steps, settings.curve_points)
    curve: dict[str, list[float]] = {"step": [], "loss": [], "seconds": []}
    losses: list[float] = []
    ratios: list[float] = []
    step_seconds: list[float] = []
    trained = 0.0
    diverged = None
    for step in range(spec.steps + 1):
        if step in points:
            held_out = evaluate(model, curve_windows, settings.batch)
            if not math.isfinite(held_out):
                diverged = f"held-out loss became {held_out} at step {step}"
                break
            for column, value in zip(curve.values(), (step, held_out, trained), strict=True):
                column.append(value)
            report(step, held_out)
        if step == spec.steps:
            break
        begin = time.perf_counter()
        loss = train_step(model, optimizer, schedule(step), text.train, order, settings)
        seconds = time.perf_counter() - begin
        trained += seconds
        step_seconds.append(seconds)
        losses.append(loss)
        if not math.isfinite(loss):
            diverged = f"training loss became {loss} at step {step + 1}"
            break
        if measure and (step + 1 in points or step == 0):
            ratios.append(_gradient_ratio(model))
    final = None
    if diverged is None:
        final = evaluate(model, text.windows(settings.final_tokens, shape.context), settings.batch)
        if not final < curve["loss"][0]:
            diverged = f"held-out loss ended at {final:.4g}, above its start {curve['loss'][0]:.4g}"
    result: dict[str, Any] = {
        "status": "ok" if diverged is None else "diverged",
        "reason": diverged,
        "loss": final if final is not None and math.isfinite(final) else None,
        "curve": curve,
        "parameters": model.parameter_count(),
        "d_ff": model.ffns()[0].d_ff,
        "train_seconds": trained,
        "tokens_per_second": settings.batch * shape.context / statistics.median(step_seconds),
        "peak_memory_bytes": _peak_memory(),
        "spikes_per_1000": 1000.0 * spikes(losses) / len(losses),
    }
    if measure and diverged is None:
        result["health"] = probes.health(model, spec.arm, curve_windows[:, :-1], settings.batch)
        result["gradient_ratio"] = {"start": ratios[0], "end": statistics.median(ratios[-3:])}
        result["saved_bytes_per_token"] = probes.saved_bytes_per_token(model, curve_windows[: settings.batch, :-1])
    return result


def train_step(
    model: LanguageModel,
    optimizer: torch.optim.Optimizer,
    lr: float,
    train: Tensor,
    order: torch.Generator,
    settings: TrainSpec,
) -> float:
    """One optimiser step on a random batch; returns its loss. The gradients stay in place until the next step."""
    context = model.spec.context
    starts = torch.randint(train.numel() - context, (settings.batch, 1), generator=order)  # [b, 1]
    window = train[starts + torch.arange(context + 1)].long()  # [b, context + 1]
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    logits = model(window[:, :-1])  # [b, context, 256]
    loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def evaluate(model: LanguageModel, windows: Tensor, batch: int) -> float:
    """Mean held-out nats per byte; windows [n, context + 1] int64."""
    model.eval()
    total = 0.0
    for start in range(0, windows.shape[0], batch):
        part = windows[start : start + batch]  # [b, context + 1]
        logits = model(part[:, :-1])  # [b, context, 256]
        total += float(F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum"))
    model.train()
    return total / windows[:, 1:].numel()


def calibrate(spec: TrialSpec, text: Text, steps: int = 16) -> dict[str, float]:
    """Seconds a training step takes, and the seconds of a trial that do not grow with its steps.

    Works on a throw-away model; the first quarter of the steps is warm-up. The lower quartile of the steps is taken: on
    a shared machine a neighbour's burst of a second would otherwise shrink a plan of many minutes.
    """
    assert spec.model is not None
    assert spec.train is not None
    model_spec, settings = spec.model, spec.train
    begin = time.perf_counter()
    model = LanguageModel(model_spec, spec.arm, seed=0)
    optimizer, schedule = _optimizer(model, settings, 1e-4, steps)
    build = time.perf_counter() - begin
    order = torch.Generator().manual_seed(0)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        train_step(model, optimizer, schedule(step), text.train, order, settings)
        times.append(time.perf_counter() - begin)
    windows = text.windows(settings.batch * model_spec.context * 2, model_spec.context)
    passes = []
    for _ in range(4):
        begin = time.perf_counter()
        evaluate(model, windows, settings.batch)
        passes.append(time.perf_counter() - begin)
    per_token = min(passes) / windows[:, 1:].numel()
    # The probes look at curve_tokens once more, with a few passes over every hidden value: about 4 evaluations.
    tokens = settings.curve_tokens * (settings.curve_points + 4) + settings.final_tokens
    return {"step": statistics.quantiles(times[steps // 4 :], n=4)[0], "overhead": build + per_token * tokens}


def spikes(losses: list[float]) -> int:
    """How many steps lie more than 6 robust standard deviations (1.4826 MAD) above the median of the 50 before.

    >>> spikes([2.0, 2.1] * 40 + [9.0] + [2.0, 2.1] * 10)
    1
    """
    count = 0
    for i in range(SPIKE_WINDOW, len(losses)):
        before = losses[i - SPIKE_WINDOW : i]
        middle = statistics.median(before)
        spread = 1.4826 * statistics.median(abs(x - middle) for x in before)
        count += losses[i] > middle + SPIKE_SIGMAS * spread
    return count


def _optimizer(
    model: LanguageModel, settings: TrainSpec, peak: float, steps: int
) -> tuple[torch.optim.AdamW, Callable[[int], float]]:
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]  # norms, biases, activation parameters: no decay
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=peak, betas=(settings.beta1, settings.beta2), fused=True)
    warm = max(1, round(settings.warmup * steps))

    def lr(step: int) -> float:
        if step < warm:
            return peak * (step + 1) / warm
        done = (step - warm) / max(1, steps - warm)
        return peak * (settings.final_lr + (1 - settings.final_lr) * 0.5 * (1 + math.cos(math.pi * done)))

    return optimizer, lr


def _points(steps: int, count: int) -> set[int]:
    """Steps at which the curve is read: the start, the end, and between them closer together at first."""
    return {0, steps} | {round(steps * (i / (count - 1)) ** 1.5) for i in range(count)}


def _gradient_ratio(model: LanguageModel) -> float:
    """Norm of the first block's FFN input gradient over that of the last block's; both clipped by the same factor."""
    first, last = (model.ffns()[i].up_proj.weight.grad for i in (0, -1))
    assert first is not None
    assert last is not None
    norm = float(last.norm())
    return float(first.norm()) / norm if norm > 0 else 0.0


def _reset_peak_memory() -> None:
    # A kept worker must report each trial's own peak. What glibc kept of earlier ones goes back first; then, on Linux,
    # writing 5 resets the peak of the resident size.
    with contextlib.suppress(OSError, AttributeError, TypeError):  # other systems, other C libraries
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int | None:
    """Peak resident bytes since the reset; None where the system cannot reset it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None
