"""The worker process: one thread, kept for the whole study, JSON lines in and out.

It is started as ``python -m softgate.lab.worker`` (a fresh interpreter: never a fork), reads one message a line on
standard input and answers on standard output. When standard input closes the driver is gone, and the worker ends at
once, in the middle of a trial if need be. Whatever a trial prints goes to standard error.
"""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from softgate.errors import SoftgateError, clean
from softgate.lab.spec import TrialSpec
from softgate.lab.trials import ModelTrials, Trials, UserTrials

# Progress messages are for people: more than a few a second would only cost time.
PROGRESS_SECONDS = 0.25

Message = dict[str, Any]


def main() -> None:
    """Serve trials until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the driver decides what happens
    # The pipes to the driver are taken away from the trial: it prints to standard error, and what it reads from
    # standard input is at its end.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    source = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(source, inbox), daemon=True).start()
    send = _sender(out)
    trials: Trials | None = None
    while True:
        message = inbox.get()
        try:
            if trials is None:
                trials = setup(message)
                send({"type": "ready"})
            else:
                spec = msgspec.convert(message["spec"], TrialSpec)
                job = trials.calibrate if message["type"] == "calibrate" else run(trials, send)
                send({"type": "done", "result": job(spec)})
        except BaseException as error:  # a trial may raise anything, sys.exit() included, and the study goes on
            ours = isinstance(error, SoftgateError)
            text = clean(str(error) if ours else "".join(traceback.format_exception_only(error)), 400).strip()
            send({"type": "failed", "error": text, "traceback": traceback.format_exc()[-4000:]})


def setup(message: Message) -> Trials:
    """Load what every trial of the study needs."""
    for entry in reversed(message["path"]):
        if entry not in sys.path:
            sys.path.insert(0, entry)
    if message["target"] is not None:
        return UserTrials(message["target"])
    return ModelTrials(message["text"], message["train_bytes"])


def run(trials: Trials, send: Callable[[Message], None]) -> Callable[[TrialSpec], Message]:
    """A job that runs one trial; its seconds include everything the worker did for it."""

    def job(spec: TrialSpec) -> Message:
        begin = time.perf_counter()
        told = -math.inf

        def report(step: int, loss: float) -> None:
            nonlocal told
            now = time.perf_counter()
            if now - told >= PROGRESS_SECONDS:
                told = now
                send({"type": "progress", "step": step, "loss": loss})

        result = trials.run(spec, report)
        result["seconds"] = time.perf_counter() - begin
        return result

    return job


def _listen(stream: BinaryIO, inbox: queue.SimpleQueue[Message]) -> None:
    for line in stream:
        inbox.put(json.loads(line))
    os._exit(0)


def _sender(out: BinaryIO) -> Callable[[Message], None]:
    def send(message: Message) -> None:
        try:
            out.write(json.dumps(message, allow_nan=False).encode() + b"\n")
        except BrokenPipeError:
            os._exit(0)

    return send


if __name__ == "__main__":
    main()
