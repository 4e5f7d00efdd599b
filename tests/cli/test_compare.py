"""softgate compare and report as commands: one line for bad input, exit 2, and progress that people can read."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn
from studies import make_plan, make_study, make_trial

from softgate.cli.progress import Bars, Lines, plan_lines
from softgate.lab import design

SUPPORT = Path(__file__).parents[1] / "support"


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    return subprocess.run(
        [sys.executable, "-m", "softgate", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["relu", "gellu"], "did you mean gelu"),
        (["relu", "gelu", "--text", "no such file"], "no such file"),
        (["relu", "gelu", "--text", "empty"], "empty"),
        (["relu", "gelu", "--text", "tiny.txt"], "tiny.txt"),
        (["relu", "gelu", "--text", "binary"], "binary"),
        (["relu", "gelu", "--budget", "1s"], "too small"),
        (["relu", "gelu", "--text", "topics", "--steps", "5", "--seeds", "2", "--study", "tiny.txt"], "cannot write"),
        (["relu", "gelu", "--text", "topics", "--steps", "5", "--seeds", "2", "--study", "corrupt"], "corrupt"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, words: list[str], what: str) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "tiny.txt").write_text("to be\n")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 200)
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "corrupt" / "study.sqlite").write_bytes(b"no database at all " * 300)
    done = run("compare", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    # The plan's own progress line may come first, where speed had to be measured.
    errors = [line for line in done.stderr.splitlines() if not line.startswith("measuring speed")]
    assert len(errors) == 1
    assert errors[0].startswith("Error: ")
    assert what in errors[0]


def test_usage_errors_keep_clicks_form(tmp_path: Path) -> None:
    done = run("compare", "relu", "gelu", "--norm", "batch", cwd=tmp_path)
    assert done.returncode == 2
    assert "Usage:" in done.stderr
    assert "Error: Invalid value for '--norm'" in done.stderr


def test_a_module_in_the_working_directory_is_found_and_a_study_can_be_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(arm, seed, steps, report):\n    return {'loss': len(arm) + seed * 0.01}\n")
    script = Path(sys.executable).with_name("softgate")  # the console script does not look there by itself
    words = [
        str(script),
        "compare",
        "a",
        "bb",
        "--trial",
        "mine:f",
        "--steps",
        "2",
        "--seeds",
        "2",
        "--study",
        "a b?#%",
    ]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    again = run("report", "a b?#%", "--html", "r.html", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == f"report: {tmp_path / 'r.html'}"
    assert (tmp_path / "r.html").is_file()
    document = json.loads(run("report", "a b?#%", "--json", "-", cwd=tmp_path).stdout)
    assert document["command"] == "softgate compare a bb --trial mine:f --steps 2 --seeds 2 --study 'a b?#%'"
    missing = run("report", "elsewhere", cwd=tmp_path)
    assert missing.returncode == 2
    assert missing.stderr.startswith("Error: no study in 'elsewhere'")


def test_a_study_in_which_everything_fails_is_exit_1(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(arm, seed, steps, report):\n    return None\n")
    done = run("compare", "a", "b", "--trial", "mine.py:f", "--steps", "2", "--seeds", "2", cwd=tmp_path)
    assert done.returncode == 1
    assert "failed: the trial returned None; expected a dict" in done.stderr
    assert "Failed final runs: a 2 of 2" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("report: ")


def test_the_plan_says_what_it_can_see_and_what_more_would() -> None:
    larger = {
        "budget_seconds": 720.0,
        "seeds": 8,
        "steps": 900,
        "smallest_detectable": 0.004,
        "smallest_detectable_sd": 1.0,
    }
    lines = plan_lines(make_study(), make_plan(predicted_seconds=171.0, larger=larger), stored=False)
    text = "\n".join(lines)
    assert "4 seeds x 100 steps for relu, gelu, swiglu and one A/A arm" in text
    assert "expected time: 2m 51s" in text
    assert "smallest detectable effect (80 % power): 0.0200 nats/byte" in text
    assert "a budget of 12m 00s would run 8 seeds x 900 steps and detect 0.0040 nats/byte" in text


def events(watch: Any) -> None:
    study, plan = make_study(), make_plan()
    spec = design.trial(study, plan, "gelu", "final", 3, 2e-3)
    watch.calibrating(study, 2)
    watch.planned(study, plan, stored=False)
    watch.running(1, spec)
    watch.progress(1, spec, 50, 2.5)
    watch.retried(spec, "the worker ended: signal 9")
    watch.running(1, spec)
    watch.finished(1, make_trial(spec, 1.25), 7, 20, 65.0)
    watch.finished(1, make_trial(spec, None, "diverged"), 8, 20, None)


def test_lines_are_one_an_event() -> None:
    out = io.StringIO()
    events(Lines(Console(file=out, soft_wrap=True)))
    lines = out.getvalue().splitlines()
    assert "[7/20] gelu final lr 0.002 seed 3: loss 1.2500 (2.0s, 1m 05s left)" in lines
    assert "[8/20] gelu final lr 0.002 seed 3: diverged: planted diverged (2.0s)" in lines
    assert "gelu final lr 0.002 seed 3: the worker ended: signal 9; run again" in lines


def test_bars_show_the_study_each_worker_the_loss_and_the_time_left() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=160)
    columns = (TextColumn("{task.description}", markup=False), TextColumn("{task.fields[note]}", markup=False))
    with Progress(*columns, console=console, auto_refresh=False) as bars:
        watch = Bars(console, bars)
        events(watch)
        whole, worker = bars.tasks
        assert (whole.completed, whole.total) == (8, 20)
        assert "8/20 trials" in whole.fields["note"]
        watch.finished(
            1, make_trial(design.trial(make_study(), make_plan(), "gelu", "final", 4, 2e-3), 1.5), 9, 20, 65.0
        )
        assert "1m 05s left; last: loss 1.5000" in whole.fields["note"]
        spec = design.trial(make_study(), make_plan(), "relu", "pilot", 1, 4e-3)
        watch.running(1, spec)
        watch.progress(1, spec, 25, 3.25)
        assert worker.description == "worker 1  relu pilot lr 0.004 seed 1"
        assert (worker.completed, worker.total) == (25, 50)
        assert worker.fields["note"] == "step 25/50, loss 3.2500"
