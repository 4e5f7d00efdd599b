"""Whole studies through the command: kill anything at any time, and the same command gets the same bits."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import toy_trials

from softgate import lab
from softgate.errors import BadInput, StudyError, TrialError, UnknownActivation

SUPPORT = Path(__file__).parents[1] / "support"
MODEL = ["--text", "topics", "--d-model", "24", "--layers", "1", "--heads", "2", "--context", "16"]
RUNS = ["relu", "gelu", "--steps", "60", "--seeds", "2", *MODEL]


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "softgate", "compare", *words, "--study", str(folder)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SUPPORT)}


def compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *words), capture_output=True, text=True, env=environment(), timeout=300)


def stored(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Loss and curve by key: everything that must not depend on how the study was run."""
    with sqlite3.connect(f"file:{folder / 'study.sqlite'}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT key, loss, result FROM trials").fetchall()
    db.close()
    found = {}
    for key, loss, result in rows:
        body = json.loads(result)
        found[key] = (loss, body["curve"]["loss"], body.get("health"))
    return found


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference") / "study"
    done = compare(folder, *RUNS, "--workers", "1", "--json", str(folder.parent / "out.json"))
    assert done.returncode == 0, done.stderr
    return folder


def test_the_last_line_is_the_report_and_the_json_is_the_document(reference: Path) -> None:
    done = compare(reference, *RUNS, "--workers", "1", "--json", "-")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["schema"] == "softgate.compare/1"
    assert document == json.loads((reference.parent / "out.json").read_text())
    assert "report: " in done.stderr
    plain = compare(reference, *RUNS, "--workers", "1")
    last = plain.stdout.splitlines()[-1]
    assert last == f"report: {(reference / 'report.html').resolve()}"
    assert Path(last.removeprefix("report: ")).is_file()


def test_two_workers_get_the_bits_of_one(reference: Path, tmp_path: Path) -> None:
    done = compare(tmp_path / "two", *RUNS, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert stored(tmp_path / "two") == stored(reference)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_kill_9_loses_nothing(reference: Path, tmp_path: Path, victim: str, workers: str) -> None:
    folder = tmp_path / "study"
    whole = stored(reference)
    driver = subprocess.Popen(
        command(folder, *RUNS, "--workers", workers),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    assert driver.stderr is not None
    third = len(whole) // 3
    lines = []
    for line in driver.stderr:
        lines.append(line)
        if line.startswith(f"[{third}/"):
            break
    if victim == "driver":
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        driver.stderr.close()
        before = stored(folder)
        assert third <= len(before) < len(whole)
        done = compare(folder, *RUNS, "--workers", workers)
        assert done.returncode == 0, done.stderr
        # The finished trials are not run again: only the others are announced.
        assert sum(line.startswith("[") for line in done.stderr.splitlines()) == len(whole) - len(before)
    else:
        os.kill(_children(driver.pid)[0], signal.SIGKILL)
        rest = driver.stderr.read()
        assert driver.wait() == 0, rest
        driver.stderr.close()
        assert "run again" in rest
    assert stored(folder) == whole


def _children(pid: int) -> list[int]:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found:
            return [int(word) for word in found]
    raise AssertionError("the driver has no workers")


def test_ctrl_c_leaves_a_study_that_resumes(tmp_path: Path) -> None:
    words = ("a", "b", "--trial", "toy_trials:slow", "--steps", "200", "--seeds", "3", "--workers", "1")
    driver = subprocess.Popen(
        command(tmp_path, *words), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
        # Where the tests run in the background of a shell, children are born deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert driver.stderr is not None
    for line in driver.stderr:
        if line.startswith("[2/"):
            break
    driver.send_signal(signal.SIGINT)
    _, err = driver.communicate(timeout=30)
    assert driver.returncode == 130, err
    assert "Traceback" not in err
    done = compare(tmp_path, *words)
    assert done.returncode == 0
    assert "[9/9]" in done.stderr
    assert "[2/9]" not in done.stderr


def test_two_processes_on_one_study_are_one_line(tmp_path: Path) -> None:
    words = ("a", "b", "--trial", "toy_trials:slow", "--steps", "2000", "--seeds", "2", "--workers", "1")
    first = subprocess.Popen(command(tmp_path, *words), stderr=subprocess.PIPE, text=True, env=environment())
    assert first.stderr is not None
    first.stderr.readline()
    second = compare(tmp_path, *words)
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert "another process" in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1


def test_a_worker_that_dies_once_costs_nothing_and_one_that_always_dies_ends_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SUPPORT))
    study = lab.compare(["a", "b"], trial="toy_trials:dies_once", steps=4, seeds=3, study=tmp_path / "once", workers=2)
    assert study.document["execution"]["retries"] == 1
    assert {t["status"] for t in study.document["trials"]} == {"ok"}
    study = lab.compare(
        ["good", "dies", "raises"], trial="toy_trials:awkward", steps=4, seeds=2, study=tmp_path / "ever", workers=1
    )
    by_arm = {t["arm"]: t for t in study.document["trials"]}
    assert by_arm["dies"]["status"] == "failed"
    assert "signal 9" in by_arm["dies"]["error"]
    assert by_arm["raises"]["error"] == "RuntimeError: planted failure"
    assert by_arm["good"]["status"] == "ok"
    # Failed trials are tried again by the same call, finished ones are not.
    again = lab.compare(
        ["good", "dies", "raises"], trial="toy_trials:awkward", steps=4, seeds=2, study=tmp_path / "ever", workers=1
    )
    assert again.document["execution"]["sessions"] == 2
    kept = {t["key"]: t["seconds"] for t in study.document["trials"] if t["status"] == "ok"}
    assert kept == {t["key"]: t["seconds"] for t in again.document["trials"] if t["status"] == "ok"}


def test_a_function_goes_through_the_whole_study(tmp_path: Path) -> None:
    study = lab.compare(["a", "b"], trial=toy_trials.steady, steps=8, seeds=6, study=tmp_path, workers=2)
    row = next(r for r in study.document["arms"] if r["arm"] == "b")
    assert row["verdict"] == "worse"
    assert row["interval"][0] < 0.5 < row["interval"][1]
    assert row["metrics"]["accuracy"]["mean"] == 0.5
    assert "b is worse than a" in str(study)
    assert lab.load(tmp_path).document == study.document
    assert "<table>" in study._repr_html_()
    assert study.to_html(tmp_path / "r.html").is_file()


def test_frames_need_pandas_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = lab.compare(["a", "b"], trial=toy_trials.steady, steps=8, seeds=2, study=tmp_path, workers=1)

    class Pandas:
        DataFrame = staticmethod(list)

    monkeypatch.setitem(sys.modules, "pandas", Pandas)
    assert len(study.to_frame()) == 6
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        study.to_frame()


@pytest.mark.parametrize(
    ("changes", "error", "what"),
    [
        ({"arms": ["relu", "gellu"]}, UnknownActivation, "gelu"),
        ({"arms": ["relu"]}, BadInput, "at least two arms"),
        ({"arms": ["relu", "relu"]}, BadInput, "named twice"),
        ({"arms": ["silu", "swish"]}, BadInput, "named twice"),
        ({"baseline": "mish"}, BadInput, "not among the arms"),
        ({"budget": "soon"}, BadInput, "not a duration"),
        ({"budget": "2s"}, BadInput, "too small"),
        ({"seeds": 1}, BadInput, "at least 2"),
        ({"steps": 0}, BadInput, "at least 1"),
        ({"workers": 0}, BadInput, "--workers"),
        ({"margin": 0.0}, BadInput, "--margin"),
        ({"margin": float("nan")}, BadInput, "--margin"),
        ({"lr": -1.0}, BadInput, "learning rate"),
        ({"lr": {"relu": 1e-3}}, BadInput, "gelu"),
        ({"preset": "huge"}, BadInput, "tiny, small, base"),
        ({"model": {"d_model": "wide"}}, BadInput, "d_model"),
        ({"model": {"width": 3}}, BadInput, "fields are"),
        ({"model": {"d_model": 10, "heads": 1}, "arms": ["relu", "swiglu"]}, BadInput, "nearest"),
        ({"text": "no/such/file"}, BadInput, "no/such/file"),
        ({"trial": "no_such_module:f"}, TrialError, "no_such_module"),
        ({"trial": "no_colon"}, TrialError, "module:function"),
        ({"trial": lambda arm, seed, steps, report: {"loss": 1.0}}, TrialError, "top"),
        ({"trial": "toy_trials:nothing"}, TrialError, "no function"),
        ({"trial": "toy_trials:steady", "lr": 1e-3}, BadInput, "--lr"),
        ({"study": "/dev/null/study"}, StudyError, "cannot write"),
    ],
)
def test_bad_requests_are_one_line(tmp_path: Path, changes: dict[str, Any], error: type[Exception], what: str) -> None:
    request = {"arms": ["relu", "gelu"], "text": "topics", "study": tmp_path / "s", "steps": 5, "seeds": 2, **changes}
    if "budget" in changes:
        del request["steps"], request["seeds"]
    with pytest.raises(error, match=what) as caught:
        lab.compare(**request)
    assert "\n" not in str(caught.value)


def test_another_command_on_a_study_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    study = lab.compare(["a", "b"], trial=toy_trials.steady, steps=8, seeds=2, study=tmp_path, workers=1)
    with pytest.raises(StudyError, match="other settings"):
        lab.compare(["a", "b"], trial=toy_trials.steady, steps=9, seeds=2, study=tmp_path, workers=1)
    assert lab.load(tmp_path).document == study.document


def test_hostile_arm_names_stay_text(tmp_path: Path) -> None:
    names = ["<img src=x onerror=alert(1)>", "</script>", "\x1b[31mred\u202e", "../../etc/passwd", "{{7*7}}"]
    study = lab.compare(names, trial=toy_trials.steady, steps=8, seeds=2, study=tmp_path, workers=1)
    page = study.to_html().read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert "\x1b" not in str(study)
    assert "\u202e" not in study.table()


def test_a_dry_run_prints_the_plan_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "softgate", "compare", "a", "b", "--trial", "toy_trials:slow"),
            *("--budget", "60s", "--dry-run", "--json", "-"),
        ],
        capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)["plan"]
    assert plan["seeds"] >= 5
    assert "smallest detectable effect (80 % power)" in done.stderr
    assert "a budget of 4m 00s would run" in done.stderr
    assert list(tmp_path.iterdir()) == []
