"""Realistic comparison documents, made from parameters: what the report's tests draw. The numbers mean nothing."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>window.injected=1</script>",
    "{{7*7}}{% raw %}",
    "--ink",
    "\u202egnp.\u2066evil\x1b[31m\x00\x07\nline",
    "<b>bold</b> & <a href='javascript:alert(1)'>%{x} $x$</a>",
    "very long " * 60,
)


def curve(final: float, steps: int, spread: float) -> Document:
    at = [round(steps * i / 15) for i in range(16)]
    mean = [final + (5.5 - final) * math.exp(-6.0 * s / steps) for s in at]
    return {"steps": at, "mean": mean, "low": [m - spread for m in mean], "high": [m + spread for m in mean]}


def ratio(estimate: float, half: float) -> Document:
    return {"estimate": estimate, "low": estimate - half, "high": estimate + half}


def health(dice: random.Random, layers: int, leaky: float) -> Document:
    def layer(index: int) -> Document:
        dead = max(0.0, 0.02 * index - leaky) + 0.004 * dice.random()
        return {
            "layer": index,
            "units": 256,
            "dead": dead,
            "dead_range": [0.5 * dead, 1.5 * dead],
            "saturated": 0.01 * index + leaky + 0.01 * dice.random(),
            "small_slope": {f"1e-{k}": (0.7 - 4 * leaky) / k for k in range(1, 7)},
            "pre_rms": 1.0 + dice.random(),
            "rms": 0.4 + 0.2 * index + 0.1 * dice.random(),
            "kurtosis": 4.0 + 3.0 * dice.random(),
        }

    return {
        "tokens": 16384,
        "firing_upper": 1.8e-4,
        "layers": [layer(index) for index in range(layers)],
        "gradient_ratio": {"start": 0.9 + dice.random(), "end": 0.4 + dice.random()},
        "spikes_per_1000": round(3 * dice.random(), 1),
    }


def arm(dice: random.Random, name: str, role: str, shift: float, seeds: int, steps: int) -> Document:
    loss, half, base = 2.0132 + shift, 0.006 + 0.002 * dice.random(), role == "baseline"
    difference = None if base else shift
    interval = None if base else [shift - half, shift + half]
    verdict = "baseline" if base else "better" if shift + half < 0 else "worse" if shift > half else "undetected"
    words = {
        "baseline": "baseline",
        "better": f"better ({shift:+.4f} nats/byte)".replace("-", "−"),
        "worse": f"worse ({shift:+.4f} nats/byte)",
        "undetected": "no detectable difference (smallest detectable 0.0094 nats/byte)",
    }[verdict]
    other = role == "arm"
    return {
        "arm": name,
        "role": role,
        "n": seeds,
        "planned": seeds,
        "diverged": 0,
        "failed": 0,
        "lr": 0.004,
        "lr_on_edge": False,
        "parameters": 215_040,
        "d_ff": 256,
        "metrics": None,
        "loss": loss,
        "loss_sd": 0.011,
        "difference": difference,
        "interval": interval,
        "bootstrap": interval,
        "sd": None if base else 0.0083,
        "p": None if base else 0.0031,
        "p_holm": None if base else 0.0062,
        "p_equivalence": None if base else 0.21,
        "smallest_detectable": None if base else 0.0094,
        "verdict": verdict,
        "words": words,
        "reason": None,
        "perplexity_ratio": None if base else ratio(math.exp(shift), half),
        "common_lr": {"lr": 0.004, "loss": loss + 0.004, "difference": difference, "n": seeds}
        if role != "aa"
        else None,
        "equal_time": {
            "loss": loss + 0.01,
            "difference": shift + 0.006,
            "interval": [shift + 0.006 - half, shift + 0.006 + half],
            "method": "loss interpolated on each curve at the shortest training time",
        }
        if other
        else None,
        "to_target": {
            "target": 2.1,
            "steps": steps * (0.7 + shift),
            "seconds": 11.0 + 40 * shift,
            "steps_ratio": ratio(1 + 8 * shift, 0.03) if other else None,
            "seconds_ratio": ratio(1.1 + 8 * shift, 0.05) if other else None,
            "n": seeds,
        },
        "speed": {
            "tokens_per_second": 41_000 - 2000 * dice.random(),
            "time_ratio": ratio(1.08 + shift, 0.02) if other else None,
            "train_seconds": 16.2,
            "peak_memory_bytes": 612 * 2**20 + 2**24 * dice.random(),
            "saved_bytes_per_token": 9216 + 1024 * len(name[:6]),
        },
        "health": health(dice, 4, 0.0 if role == "baseline" else 0.03),
        "curve": curve(loss, steps, half),
    }


def trial(name: str, phase: str, seed: int, loss: float | None, steps: int, **more: Any) -> Document:
    return {
        "arm": name,
        "phase": phase,
        "seed": seed,
        "lr": 0.004,
        "steps": steps,
        "loss": loss,
        "status": "ok",
        "error": None,
        "seconds": 16.2,
        "tokens_per_second": 40_500.0,
        "peak_memory_bytes": 642_000_000,
        "parameters": 215_040,
        "key": hashlib.sha256(f"{name} {phase} {seed}".encode("utf-8", "replace")).hexdigest()[:32],
        "curve": {"steps": [0, steps], "loss": [5.5, loss], "seconds": [0.0, 16.2]},
        **more,
    }


def example(
    names: Sequence[str] = ("relu", "gelu", "swiglu"), *, seeds: int = 8, steps: int = 600, complete: bool = True
) -> Document:
    """Three arms and A/A; one run of the last arm diverged, one failed; its highest rate diverged in the pilot."""
    dice, last = random.Random(7), names[-1]
    baseline, again = names[0], f"{names[0]} (A/A)"
    shifts = {name: (0.0, -0.0124, -0.0287, 0.0171, 0.0021, -0.004, 0.03)[i % 7] for i, name in enumerate(names)}
    arms = [arm(dice, name, "arm" if name != baseline else "baseline", shifts[name], seeds, steps) for name in names]
    arms.append(arm(dice, again, "aa", 0.0009, max(2, seeds // 2), steps))
    arms[-2] |= {"n": seeds - 2, "diverged": 1, "failed": 1, "lr_on_edge": True}
    trials = [
        trial(name, "final", seed, 2.0132 + shifts[name] + 0.01 * dice.gauss(0, 1), steps)
        for name in names
        for seed in range(seeds)
    ]
    trials += [trial(again, "aa", seed, 2.014 + 0.01 * dice.gauss(0, 1), steps) for seed in range(max(2, seeds // 2))]
    trials += [trial(name, "pilot", 1000, 2.2 + shifts[name], steps // 4) for name in names]
    mine = [index for index, one in enumerate(trials) if one["arm"] == last and one["phase"] == "final"]
    trials[mine[1]] |= {"loss": None, "status": "diverged", "error": "loss is NaN at step 212"}
    trials[mine[2]] |= {"loss": None, "status": "failed", "error": f"MemoryError in {last}"}
    return {
        "schema": "softgate.compare/1",
        "title": f"{', '.join(names)} on Python's standard library",
        "created": "2026-12-01T10:00:00+00:00",
        "command": f"softgate compare {' '.join(names)} --budget 4m --study softgate-study",
        "complete": complete,
        "metric": {"name": "held-out loss", "unit": "nats/byte"},
        "baseline": baseline,
        "margin": 0.01,
        "alpha": 0.05,
        "headline": [
            f"{last} is better than {baseline}: −0.029 nats/byte (95 % interval -0.036 to -0.022, 6 pairs of runs).",
            "One run diverged and one failed; both are shown below and neither enters the means.",
            "At equal time the order is the same.",
        ],
        "arms": arms,
        "noise_floor": {
            "arm": again,
            "difference": 0.0009,
            "interval": [-0.005, 0.0068],
            "sd": 0.004,
            "n": max(2, seeds // 2),
            "inside": True,
        },
        "pilot": [
            {
                "arm": name,
                "lr": lr,
                "loss": None
                if name == last and lr == 0.016
                else 2.2 + shifts[name] + 0.05 * math.log2(lr / 0.004) ** 2,
                "n": 2,
                "diverged": 2 if name == last and lr == 0.016 else 0,
                "chosen": lr == 0.004,
            }
            for name in names
            for lr in (0.002, 0.004, 0.008, 0.016)
        ],
        "trials": trials,
        "data": {
            "name": "stdlib",
            "files": 612,
            "bytes": 11_048_275,
            "train_bytes": 9_900_000,
            "held_out_bytes": 1_148_275,
            "hash": "9f2c" * 8,
            "split": "by whole file, every tenth held out",
            "skipped": 3,
            "ngrams": {"unigram": 3.3121, "bigram": 2.6034, "trigram": 2.0801},
        },
        "plan": {
            "budget_seconds": 240.0,
            "workers": 2,
            "seeds": seeds,
            "steps": steps,
            "pilot_steps": steps // 4,
            "pilot_seeds": 2,
            "learning_rates": [0.002, 0.004, 0.008, 0.016],
            "assumed_sd": 0.012,
            "smallest_detectable": 0.0138,
            "predicted_seconds": 226.0,
            "overhead_seconds": dict.fromkeys(names, 1.5),
            "larger": {"budget_seconds": 1200.0, "seeds": 16, "steps": 1400, "smallest_detectable": 0.0091},
            "source": "budget",
        },
        "execution": {"wall_seconds": 231.4, "busy_share": 0.957, "workers": 2, "retries": 0},
        "model": {
            "d_model": 64,
            "layers": 4,
            "heads": 4,
            "context": 64,
            "norm": "layer",
            "dropout": 0.0,
            "bias": False,
        },
        "training": {"batch": 32, "weight_decay": 0.1},
        "environment": {
            "softgate": "0.1.0",
            "source": "0f" * 16,
            "git": "d3b07384d113edec49eaa6238ad5ff00d3b07384",
            "python": "3.11.9",
            "torch": "2.13.0+cpu",
            "numpy": "2.3.1",
            "scipy": "1.16.0",
            "platform": "Linux-6.1-x86_64",
            "cpu": "AMD EPYC",
            "cpu_capability": "AVX512",
            "threads": 1,
            "text_hash": "9f2c" * 8,
        },
    }


def hostile() -> Document:
    """Every place that can hold somebody else's text holds a hostile one."""
    document = example(HOSTILE, seeds=4)
    document["data"] |= {"name": HOSTILE[1], "split": HOSTILE[0], "ngrams": {HOSTILE[0]: 2.6, "unigram": 3.3}}
    document["metric"] = {"name": "<i>loss</i>", "unit": "{{unit}}"}
    document["environment"] |= {"cpu": "</style><h1>cpu</h1>", "platform": "file\udc80name"}
    document["model"] = {HOSTILE[1]: HOSTILE[0]}
    for one in document["arms"]:
        one |= {"reason": f"{one['arm']} <u>because</u>", "words": f"<em>{one['words']}</em>"}
    return document


def bare() -> Document:
    """A user's own trial function: a metric and nothing else; one arm has no finished run; the study is unfinished."""
    document = example(("plain loop", "other loop", "broken loop"), seeds=3, complete=False)
    nothing = ("perplexity_ratio", "common_lr", "equal_time", "to_target", "health", "lr", "parameters", "d_ff")
    for one in document["arms"]:
        one |= dict.fromkeys(nothing)
        one["metrics"] = {"accuracy": {"mean": 0.871, "difference": -0.002, "n": 3}}
        one["speed"] = dict.fromkeys(one["speed"]) | {"train_seconds": 2.5}
        one["curve"] = {"steps": [], "mean": [], "low": [], "high": []}
    statistics = ("loss", "loss_sd", "difference", "interval", "bootstrap", "sd", "p", "p_holm", "p_equivalence")
    document["arms"][2] |= dict.fromkeys(statistics) | {
        "n": 0,
        "diverged": 0,
        "failed": 3,
        "verdict": "undecided",
        "words": "undecided",
        "reason": "all 3 runs failed",
        "lr_on_edge": False,
    }
    for one in document["trials"]:
        one |= {"lr": None, "tokens_per_second": None, "peak_memory_bytes": None, "parameters": None}
        if one["arm"] == "broken loop":
            one |= {"loss": None, "status": "failed", "error": "ZeroDivisionError: division by zero"}
    document["trials"] = [one for one in document["trials"] if one["phase"] != "pilot"]
    return document | {
        "data": None,
        "created": None,
        "command": None,
        "model": None,
        "noise_floor": None,
        "pilot": [],
        "metric": {"name": "validation error", "unit": "error"},
        "arms": document["arms"][:3],
        "trials": [one for one in document["trials"] if one["phase"] == "final"],
    }
