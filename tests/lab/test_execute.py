"""Workers: fresh single-threaded interpreters that survive bad trials, are replaced, and never outlive the driver."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from softgate.errors import TrialError
from softgate.lab.execute import Event, Workers
from softgate.lab.spec import TrialSpec
from softgate.lab.trials import resolve

SUPPORT = Path(__file__).parents[1] / "support"


def setup(target: str) -> dict[str, Any]:
    return {"type": "setup", "path": [str(SUPPORT)], "target": target}


def spec(arm: str, seed: int = 0) -> TrialSpec:
    return TrialSpec(arm=arm, phase="final", seed=seed, order_seed=seed, steps=8, source="s", target="t")


def outcome(pool: Workers, worker: int, arm: str) -> Event:
    pool.send(worker, "trial", spec(arm))
    return next(event for event in pool.events() if event.kind != "progress")


def test_a_worker_outlives_every_trial_that_only_raises(capfd: pytest.CaptureFixture[str]) -> None:
    with Workers(1, setup("toy_trials:awkward")) as pool:
        assert next(pool.events()).kind == "ready"
        first = pool.pids
        for arm, what in [
            ("raises", "planted failure"),
            ("exits", "SystemExit: 3"),
            ("interrupts", "KeyboardInterrupt"),
            ("no loss", 'a key "loss"'),
            ("not a number", "must be a number"),
        ]:
            event = outcome(pool, 0, arm)
            assert event.kind == "failed"
            assert what in event.message["error"]
            assert "\n" not in event.message["error"]
            assert "\x1b" not in event.message["error"]
        nan = outcome(pool, 0, "nan")
        assert nan.message["result"]["status"] == "diverged"
        assert nan.message["result"]["loss"] is None
        assert nan.message["result"]["metrics"] == {"accuracy": None}
        assert outcome(pool, 0, "reads").message["result"]["loss"] == 0.0
        curve = outcome(pool, 0, "talks").message["result"]["curve"]
        assert 500 <= len(curve["step"]) < 1000
        assert curve["step"][:3] == [0, curve["step"][1], 2 * curve["step"][1]]
        good = outcome(pool, 0, "good")
        assert good.message["result"]["loss"] == 1.0
        assert pool.pids == first
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "and so must not this" in captured.err


def test_a_dead_worker_says_how_and_is_replaced() -> None:
    with Workers(1, setup("toy_trials:awkward")) as pool:
        assert next(pool.events()).kind == "ready"
        event = outcome(pool, 0, "dies")
        assert event.kind == "died"
        assert "signal 9" in event.message["error"]
        pool.replace(0)
        assert next(pool.events()).kind == "ready"
        assert outcome(pool, 0, "good").kind == "done"


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("no_such_module_anywhere:f", "cannot import"),
        ("toy_trials:nothing", "no function"),
        ("toy_trials:not_callable", "no function"),
        ("toy_trials", "module:function"),
    ],
)
def test_a_trial_that_cannot_be_imported_fails_the_setup(target: str, what: str) -> None:
    with Workers(1, setup(target)) as pool:
        event = next(pool.events())
        assert event.kind == "failed"
        assert what in event.message["error"]


def test_resolve_reads_files_by_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(arm, seed, steps, report):\n    return {'loss': 1.0}\n")
    assert resolve(f"{tmp_path / 'mine.py'}:f")("a", 0, 1, None) == {"loss": 1.0}
    (tmp_path / "broken.py").write_text("def f(:\n")
    with pytest.raises(TrialError, match="SyntaxError"):
        resolve(f"{tmp_path / 'broken.py'}:f")


def test_every_library_is_told_to_use_one_thread(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(
        "import os\ndef f(arm, seed, steps, report):\n    return {'loss': float(os.environ['OMP_NUM_THREADS'])}\n"
    )
    with Workers(1, setup(f"{tmp_path / 'threads.py'}:f")) as pool:
        next(pool.events())
        assert outcome(pool, 0, "a").message["result"]["loss"] == 1.0


def test_workers_end_when_the_driver_is_killed() -> None:
    code = (
        "from softgate.lab.execute import Workers; import sys, time\n"
        f"pool = Workers(2, {setup('toy_trials:slow')!r})\n"
        "events = pool.events(); next(events); next(events)\n"
        "from softgate.lab.spec import TrialSpec\n"
        "spec = TrialSpec(arm='a', phase='final', seed=0, order_seed=0, steps=100000, source='s', target='t')\n"
        "pool.send(0, 'trial', spec)\n"
        "print(*pool.pids, flush=True); time.sleep(100)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    pids = [int(word) for word in driver.stdout.readline().split()]
    assert len(pids) == 2
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(_alive(pid) for pid in pids):
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        # A killed process of a killed parent may stay a zombie where nobody collects it.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
    except OSError:
        os.kill(pid, 0)
        return True
