"""The guide's files run as they are printed there, through the command it gives."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python file=(\S+)\n(.*?)```", GUIDE, re.DOTALL))
COMMANDS = re.findall(r"^\$ (softgate compare .*--trial (\S+\.py):\w+ .*)$", GUIDE, re.MULTILINE)


def test_every_file_of_the_guide_has_a_command_and_the_other_way_round() -> None:
    assert set(FILES) == {file for _, file in COMMANDS} == {"plain.py", "hugging_face.py"}


@pytest.mark.parametrize(("command", "file"), COMMANDS, ids=[file for _, file in COMMANDS])
def test_a_users_trial_runs_as_printed(tmp_path: Path, command: str, file: str) -> None:
    (tmp_path / file).write_text(FILES[file], encoding="utf-8")
    short = re.sub(r"--seeds \d+", "--seeds 2", re.sub(r"--steps \d+", "--steps 20", command)).split()[1:]
    done = subprocess.run(
        [sys.executable, "-m", "softgate", *short, "--json", "-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["complete"]
    assert {t["status"] for t in document["trials"]} == {"ok"}
    # The same seeds give another result for another activation, so the arm reached the model.
    losses = [arm["loss"] for arm in document["arms"]]
    assert len(set(losses)) == len(losses)
    assert all(len(t["curve"]["step"]) == 2 for t in document["trials"])


def test_the_guides_python_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "gelu" in done.stdout
    assert (tmp_path / "report.html").is_file()
