"""The driver's side of the workers: start, feed, listen, replace the dead.

Workers are fresh interpreters with one thread each, kept for the whole study. What a trial computes does not depend
on which worker runs it, on how many there are, or on what ran before it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from softgate.errors import TrialError
from softgate.lab.spec import TrialSpec

# Said before any library is loaded. One thread a worker: two workers with two threads each would fight for two cores.
# And glibc keeps freed memory: fresh pages cost more than the arithmetic of an activation (GELU's slope on 2048 x 256
# float32: 4.0 ms against 1.4), which would count against the functions that need most scratch.
SETTINGS = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    **dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), "1000000000"),
}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something a worker said. kind: "ready", "progress", "done", "failed" or "died"."""

    worker: int
    kind: str
    message: dict[str, Any]


class Workers:
    """A fixed number of worker processes.

    `setup` is sent to each when it starts, also to a replacement. Use as a context manager: leaving it ends them all.
    """

    def __init__(self, count: int, setup: dict[str, Any]) -> None:
        self._setup = setup
        self._events: queue.SimpleQueue[tuple[subprocess.Popen[bytes], Event]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listeners: list[threading.Thread] = []
        for index in range(count):
            self._processes.append(self._start(index))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes:
            process.kill()
        for thread in self._listeners:
            thread.join()
        for process in self._processes:
            _close_input(process)

    @property
    def pids(self) -> list[int]:
        """Process ids, by worker."""
        return [process.pid for process in self._processes]

    def send(self, worker: int, kind: str, spec: TrialSpec) -> None:
        """Give a worker that is idle a job: "trial" or "calibrate"."""
        self._write(self._processes[worker], {"type": kind, "spec": msgspec.to_builtins(spec)})

    def replace(self, worker: int) -> None:
        """Start a new process in the place of one that died."""
        _close_input(self._processes[worker])
        self._processes[worker] = self._start(worker)

    def events(self) -> Iterator[Event]:
        """What the workers say, in order of arrival, for ever; words of a process that was replaced are left out."""
        while True:
            process, event = self._events.get()
            if self._processes[event.worker] is process:
                yield event

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "softgate.lab.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **SETTINGS},
        )
        self._write(process, self._setup)
        listener = threading.Thread(target=self._listen, args=(index, process), daemon=True)
        listener.start()
        self._listeners.append(listener)
        return process

    @staticmethod
    def _write(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
        assert process.stdin is not None
        # A worker that is already dead says so through its closed output; the write may fail first.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()

    def _listen(self, index: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                try:
                    message = json.loads(line)
                except ValueError:  # killed in the middle of a line
                    break
                self._events.put((process, Event(worker=index, kind=message["type"], message=message)))
        status = process.wait()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        self._events.put((process, Event(worker=index, kind="died", message={"error": f"the worker ended: {how}"})))


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def calibrate(workers: Workers, count: int, specs: list[TrialSpec]) -> list[dict[str, float]]:
    """Time every spec on workers that are all busy, as they will be; returns {"step", "overhead"} in order of `specs`.

    Raises TrialError when a calibration fails: the trials would fail too.
    """
    # Every worker times every arm, all at once: with one of them alone on the machine the rate would be too good.
    todo = {worker: list(range(len(specs))) for worker in range(count)}
    seen: list[list[dict[str, float]]] = [[] for _ in specs]
    busy = set(range(count))
    current: dict[int, int] = {}
    for event in workers.events():
        if event.kind == "progress":
            continue
        if event.kind in ("failed", "died"):
            raise TrialError(f"a first short run failed: {event.message['error']}")
        if event.kind == "done":
            seen[current[event.worker]].append(event.message["result"])
        if todo[event.worker]:
            current[event.worker] = todo[event.worker].pop(0)
            workers.send(event.worker, "calibrate", specs[current[event.worker]])
        else:
            busy.discard(event.worker)
            if not busy:
                break
    return [{name: min(r[name] for r in results) for name in ("step", "overhead")} for results in seen]
