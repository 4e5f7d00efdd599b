"""From what a user asks for to a checked study: arms, text, preset, folder."""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from softgate import acts
from softgate.errors import BadInput, TrialError, clean
from softgate.files import atomic_write
from softgate.lab.environment import source_hash
from softgate.lab.spec import PRESETS, ModelSpec, Preset, StudySpec, digest
from softgate.nn.ffn import hidden_width

if TYPE_CHECKING:
    from softgate.lab.data import Corpus

DEFAULT_BUDGET = "3m"
MOST_ARMS = 64
SMALL_FROM = 600.0  # seconds of budget
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)?")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `compare`, unchecked."""

    arms: tuple[str, ...]
    text: str = "stdlib"
    budget: str | float | None = None
    folder: str | os.PathLike[str] | None = None
    preset: str | None = None
    baseline: str | None = None
    steps: int | None = None
    seeds: int | None = None
    lr: float | Mapping[str, float] | None = None
    workers: int | None = None
    margin: float = 0.01
    model: dict[str, Any] = field(default_factory=dict)
    trial: str | Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A checked request: what to study, where, on how many workers, on which text."""

    study: StudySpec
    folder: Path
    workers: int
    corpus: Corpus | None

    def setup(self, folder: Path) -> dict[str, Any]:
        """What each worker is told when it starts; writes the prepared text into `folder` for all of them."""
        message: dict[str, Any] = {"type": "setup", "path": [p for p in sys.path if p], "target": self.study.target}
        if self.corpus is not None:
            path = folder / "text.bin"
            train, held_out = self.corpus.train.numpy(), self.corpus.held_out.numpy()
            atomic_write(path, train.tobytes() + held_out.tobytes())
            message |= {"text": str(path.resolve()), "train_bytes": int(train.size)}
        return message


def prepare(request: Request) -> Job:
    """Check a request and load its text. Raises BadInput, UnknownActivation or TrialError; writes nothing."""
    workers = request.workers if request.workers is not None else _cores()
    if not 1 <= workers <= 1024:
        raise BadInput(f"--workers {workers} is not in 1 to 1024; leave it out for one a core")
    if not (math.isfinite(request.margin) and request.margin > 0):
        raise BadInput(f"--margin {request.margin} is not a positive number; 0.01 nats/byte is the default")
    for name, value, least in (("--seeds", request.seeds, 2), ("--steps", request.steps, 1)):
        if value is not None and value < least:
            raise BadInput(f"{name} {value} is too few; it must be at least {least}")
    given = request.seeds is not None and request.steps is not None
    budget = None if given and request.budget is None else parse_duration(request.budget or DEFAULT_BUDGET)
    common = {
        "margin": request.margin,
        "alpha": 0.05,
        "budget": budget,
        "default_budget": budget is not None and request.budget is None,
        "seeds": request.seeds,
        "steps": request.steps,
    }
    if request.trial is not None:
        study, corpus = _user_study(request, common), None
    else:
        study, corpus = _model_study(request, common)
    folder = Path(request.folder) if request.folder is not None else default_folder(study)
    return Job(study=study, folder=folder, workers=workers, corpus=corpus)


def _cores() -> int:
    """Cores this process may use; macOS and Windows cannot restrict them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_folder(study: StudySpec) -> Path:
    """A folder named after the study's settings, so that the same command finds it again."""
    arms = "-".join(re.sub(r"\W+", "", arm)[:12] for arm in study.arms[:4])
    return Path("softgate-studies") / f"{arms or 'study'}-{digest(study)[:8]}"


def parse_duration(value: str | float) -> float:
    """Seconds from "30s", "3m", "2h" or a number of seconds.

    >>> parse_duration("1.5m")
    90.0

    Raises BadInput.
    """
    match = _DURATION.fullmatch(str(value).strip())
    seconds = float(match[1]) * {"s": 1, "m": 60, "h": 3600, None: 1}[match[2]] if match else 0.0
    if not 0 < seconds < 1e7:
        raise BadInput(f"'{clean(value)}' is not a duration; write 30s, 4m or 2h")
    return seconds


def _arms(names: tuple[str, ...], baseline: str | None) -> tuple[tuple[str, ...], str]:
    if len(names) < 2:
        raise BadInput(f"a comparison needs at least two arms, got {len(names)}; name two or more")
    if len(names) > MOST_ARMS:
        raise BadInput(f"{len(names)} arms are too many; at most {MOST_ARMS}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"arm '{clean(twice)}' is named twice; an A/A arm is always run, so name each arm once")
    first = names[0] if baseline is None else baseline
    if first not in names:
        raise BadInput(
            f"baseline '{clean(first)}' is not among the arms {', '.join(map(clean, names))}; name one of them"
        )
    return names, first


def _model_study(request: Request, common: dict[str, Any]) -> tuple[StudySpec, Corpus]:
    from softgate.lab.data import load

    names = tuple(acts.get(name).name for name in request.arms)
    baseline = None if request.baseline is None else acts.get(request.baseline).name
    arms, first = _arms(names, baseline)
    name = request.preset or _preset_for(common["budget"])
    if name not in PRESETS:
        raise BadInput(f"unknown preset '{clean(name)}'; choose {', '.join(PRESETS)}")
    preset = PRESETS[name]
    model = _model(preset, request.model)
    for arm in arms:
        hidden_width(model.d_model, gated=acts.get(arm).gated, bias=model.bias)  # raises where widths cannot match
    corpus = load(request.text, context=model.context)
    rates = _rates(request.lr, arms)
    study = StudySpec(
        arms=arms, baseline=first, unit="nats/byte", source=source_hash(), lr=rates,
        learning_rates=preset.learning_rates, sd=preset.sd, model=model, train=preset.train,
        text_name=corpus.name, text=corpus.hash, **common,
    )  # fmt: skip
    return study, corpus


def _preset_for(budget: float | None) -> str:
    """The largest model that gets past the bigram baseline within the budget, measured on 2 cores (docs/log.md)."""
    return "tiny" if budget is None or budget < SMALL_FROM else "small"


def _model(preset: Preset, changes: Mapping[str, Any]) -> ModelSpec:
    try:
        return msgspec.convert(msgspec.to_builtins(preset.model) | dict(changes), ModelSpec)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"model settings: {clean(error, 200)}; fields are {', '.join(ModelSpec.__struct_fields__)}"
        ) from error


def _rates(lr: float | Mapping[str, float] | None, arms: tuple[str, ...]) -> dict[str, float] | None:
    if lr is None:
        return None
    rates = (
        {acts.get(a).name: float(v) for a, v in lr.items()}
        if isinstance(lr, Mapping)
        else dict.fromkeys(arms, float(lr))
    )
    missing = [arm for arm in arms if arm not in rates]
    if missing:
        raise BadInput(f"no learning rate for arm '{missing[0]}'; give one number or one an arm")
    for rate in rates.values():
        if not (math.isfinite(rate) and rate > 0):
            raise BadInput(f"learning rate {rate} is not a positive number")
    return {arm: rates[arm] for arm in arms}


def _user_study(request: Request, common: dict[str, Any]) -> StudySpec:
    if request.lr is not None:
        raise BadInput("--lr belongs to the lab's own model; your trial function sets its own rates")
    if request.model:
        raise BadInput("model settings belong to the lab's own model; your trial function builds its own")
    for arm in request.arms:
        if not arm or len(arm) > 200:
            raise BadInput(f"arm '{clean(arm)}' has {len(arm)} characters; use 1 to 200")
    arms, first = _arms(request.arms, request.baseline)
    target, source = _target(request.trial)
    return StudySpec(
        arms=arms,
        baseline=first,
        unit="loss",
        source=source,
        lr=None,
        learning_rates=(),
        sd=None,
        target=target,
        **common,
    )


def _target(trial: str | Callable[..., Any] | None) -> tuple[str, str]:
    """The importable name of a user's function, and a hash of the file that holds it."""
    if callable(trial):
        name = getattr(trial, "__qualname__", "")
        try:
            file = inspect.getsourcefile(trial)
        except TypeError:
            file = None
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or file is None or not Path(file).is_file():
            raise TrialError(
                f"the trial '{clean(name or repr(trial))}' cannot be imported by a worker; define it at a file's top"
            )
        path = Path(file).resolve()
        return f"{path}:{name}", digest(path.read_text(encoding="utf-8"))
    module, _, function = str(trial).rpartition(":")
    if not module or not function:
        raise TrialError(f"'{clean(trial)}' does not name a trial; write module:function or file.py:function")
    import importlib.util

    if module.endswith(".py"):
        path = Path(module).resolve()
        if not path.is_file():
            raise TrialError(f"no file '{clean(module)}'; write module:function or file.py:function")
        return f"{path}:{function}", digest(path.read_text(encoding="utf-8", errors="replace"))
    try:
        found = importlib.util.find_spec(module)
    except Exception:  # a dotted name runs the code of its packages, which may raise anything
        found = None
    if found is None or found.origin is None or not Path(found.origin).is_file():
        raise TrialError(f"cannot find the module '{clean(module)}'; run from its folder or install it")
    return f"{module}:{function}", digest(Path(found.origin).read_text(encoding="utf-8", errors="replace"))
