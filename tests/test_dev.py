"""dev.py: the set-up is done once, is never trusted half done, and what it runs decides the exit status."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("softgate_dev", ROOT / "dev.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


dev = load()


class Runner:
    """Instead of running programs: notes them, makes what venv would make, answers as told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[list[str]] = []
        self.answers: dict[str, int | Callable[[], int]] = {}

    def __call__(self, command: list[str], root: str, quiet: bool = False) -> int:
        assert root == str(self.root)
        self.commands.append(command)
        if command[1:3] == ["-m", "venv"]:
            python = Path(dev.venv_python(root))
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        answer = self.answers.get(command[2], 0)
        return answer() if callable(answer) else answer

    def take(self) -> list[str]:
        """What ran since the last call, without the interpreter."""
        taken = [" ".join(command[1:]) for command in self.commands]
        self.commands.clear()
        return taken


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    (tmp_path / "pyproject.toml").write_text("a")
    (tmp_path / "constraints.txt").write_text("b")
    fake = Runner(tmp_path)
    monkeypatch.setattr(dev, "call", fake)
    return fake


def main(runner: Runner, *arguments: str) -> int:
    status: int = dev.main(list(arguments), root=str(runner.root))
    return status


def install(extras: str) -> str:
    return f"-m pip install --quiet --disable-pip-version-check -c constraints.txt -e .[{extras}]"


def stamp(runner: Runner) -> Path:
    return runner.root / ".venv" / "softgate-stamp.json"


def test_first_call_installs_and_second_does_not(runner: Runner) -> None:
    assert main(runner, "test") == 0
    assert runner.take() == [f"-m venv {runner.root / '.venv'}", install("test"), "-m pytest"]
    assert main(runner, "run") == 0
    assert runner.take() == ["-m softgate compare"]


def test_run_comes_first_without_the_tests_packages(runner: Runner) -> None:
    assert main(runner, "run") == 0
    bare = install("").removesuffix("[]")  # pip refuses ".[]"
    assert runner.take() == [f"-m venv {runner.root / '.venv'}", bare, "-m softgate compare"]
    assert main(runner, "test") == 0
    assert runner.take() == [install("test"), "-m pytest"]
    assert main(runner, "run") == 0
    assert runner.take() == ["-m softgate compare"]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_install_again_in_the_same_environment(runner: Runner, name: str) -> None:
    main(runner, "test")
    runner.take()
    (runner.root / name).write_text("changed")
    assert main(runner, "test") == 0
    assert runner.take() == [install("test"), "-m pytest"]
    assert main(runner, "test") == 0
    assert runner.take() == ["-m pytest"]


def test_check_adds_its_tools_and_later_changes_keep_them(runner: Runner) -> None:
    main(runner, "test")
    runner.take()
    checks = ["-m ruff check", "-m ruff format --check", "-m mypy", "-m pytest -x"]
    assert main(runner, "check", "-x") == 0
    assert runner.take() == [install("dev,test"), *checks]
    main(runner, "test")
    assert runner.take() == ["-m pytest"]
    (runner.root / "constraints.txt").write_text("changed")
    main(runner, "test")
    assert runner.take() == [install("dev,test"), "-m pytest"]


def test_fingerprint_tells_which_file_holds_what(runner: Runner) -> None:
    """Text that moves from one file to the other is a change, and so is another folder: the environment names it."""
    first = dev.fingerprint(str(runner.root))
    (runner.root / "pyproject.toml").write_text("ab")
    (runner.root / "constraints.txt").write_text("")
    second = dev.fingerprint(str(runner.root))
    moved = runner.root / "moved"
    moved.mkdir()
    for name in ("pyproject.toml", "constraints.txt"):
        (moved / name).write_bytes((runner.root / name).read_bytes())
    assert len({first, second, dev.fingerprint(str(moved))}) == 3


def test_failed_pip_leaves_no_stamp_and_runs_nothing(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    runner.answers["pip"] = 3
    assert main(runner, "test") == 3
    assert runner.take()[-1] == install("test")
    assert not stamp(runner).exists()
    assert "could not install" in capsys.readouterr().err
    runner.answers.clear()
    assert main(runner, "test") == 0
    assert runner.take() == ["-c import pip", install("test"), "-m pytest"]


def test_failed_pip_after_a_good_set_up_takes_the_stamp_away(runner: Runner) -> None:
    main(runner, "test")
    (runner.root / "constraints.txt").write_text("changed")
    runner.answers["pip"] = 1
    assert main(runner, "test") == 1
    assert not stamp(runner).exists()


@pytest.mark.parametrize("step", ["venv", "pip"])
@pytest.mark.parametrize("how", ["ctrl-c", "killed"])
def test_interrupted_set_up_is_started_over(runner: Runner, step: str, how: str) -> None:
    def interrupt() -> int:
        (runner.root / ".venv" / "half").touch()
        if how == "ctrl-c":
            raise KeyboardInterrupt
        return -9

    runner.answers[step] = interrupt
    assert main(runner, "test") == {"ctrl-c": 130, "killed": 137}[how]
    assert not stamp(runner).exists()
    runner.take()
    runner.answers.clear()
    assert main(runner, "test") == 0
    assert runner.take() == [f"-m venv {runner.root / '.venv'}", install("test"), "-m pytest"]
    assert not (runner.root / ".venv" / "half").exists()


def test_environment_made_by_hand_is_kept(runner: Runner) -> None:
    """An environment without a stamp is used as it is; when it lacks pip, venv adds it and removes nothing."""
    python = Path(dev.venv_python(str(runner.root)))
    python.parent.mkdir(parents=True)
    python.touch()
    (runner.root / ".venv" / "mine").touch()
    main(runner, "test")
    assert runner.take() == ["-c import pip", install("test"), "-m pytest"]
    stamp(runner).unlink()
    runner.answers["import pip"] = 1
    main(runner, "test")
    assert runner.take() == ["-c import pip", f"-m venv {runner.root / '.venv'}", install("test"), "-m pytest"]
    assert (runner.root / ".venv" / "mine").exists()


def test_lost_interpreter_means_a_new_environment(runner: Runner) -> None:
    """After an upgrade of the system .venv/bin/python may point nowhere, though the stamp is right."""
    main(runner, "test")
    runner.take()
    Path(dev.venv_python(str(runner.root))).unlink()
    assert main(runner, "test") == 0
    assert runner.take()[0].startswith("-m venv")


def test_unreadable_stamp_counts_as_none(runner: Runner) -> None:
    main(runner, "test")
    for text in ("", "[]", '{"fingerprint": "a"}', json.dumps({"fingerprint": "a", "extras": 3})):
        stamp(runner).write_text(text)
        assert dev.read_stamp(str(stamp(runner))) == ("", set())


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_missing_venv_names_the_package(
    runner: Runner, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    assert main(runner, "test") == 2
    assert runner.take() == []
    last = capsys.readouterr().err.splitlines()[-1]
    assert missing in last
    assert f"apt-get install python{sys.version_info[0]}.{sys.version_info[1]}-venv" in last


def test_arguments_are_passed_through(runner: Runner) -> None:
    main(runner, "test")
    runner.take()
    main(runner, "run", "gelu", "--text", "a b.txt", "--help")
    assert runner.commands == [
        [dev.venv_python(str(runner.root)), "-m", "softgate", "compare", "gelu", "--text", "a b.txt", "--help"]
    ]


@pytest.mark.parametrize(("answer", "status"), [(1, 1), (5, 5), (130, 130), (-9, 137)])
def test_exit_status_propagates_and_ends_a_check(runner: Runner, answer: int, status: int) -> None:
    main(runner, "check")
    runner.take()
    runner.answers["mypy"] = answer
    assert main(runner, "check") == status
    assert runner.take()[-1] == "-m mypy"


def test_old_python_is_told_in_one_line(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["test"], root=str(runner.root), version=(3, 10, 13)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "3.11 or newer" in err
    assert "3.10.13" in err
    assert runner.take() == []
    assert dev.main(["test"], root=str(runner.root), version=(3, 11, 0)) == 0


def test_old_python_can_read_the_file() -> None:
    """The message above appears only if a Python of years ago can parse the file and define its functions."""
    tree = ast.parse((ROOT / "dev.py").read_text(encoding="utf-8"), feature_version=(3, 6))
    annotations = [
        annotation
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for annotation in (node.returns, *(argument.annotation for argument in node.args.args))
    ]
    assert len(annotations) > 10
    # int, str, bool, or quoted: those definitions evaluate to nothing that is newer.
    assert all(isinstance(annotation, ast.Name | ast.Constant) for annotation in annotations)
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))


@pytest.mark.parametrize(("arguments", "status"), [([], 2), (["bogus"], 2), (["--help"], 0), (["-h"], 0)])
def test_usage(runner: Runner, arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(runner, *arguments) == status
    assert "run|test|check" in capsys.readouterr().err
    assert runner.take() == []


def test_missing_file_is_told_in_one_line(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    (runner.root / "constraints.txt").unlink()
    assert main(runner, "test") == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "constraints.txt" in err


def test_windows_has_its_own_folder() -> None:
    assert dev.venv_python("tree", windows=True) == os.path.join("tree", ".venv", "Scripts", "python.exe")
    assert dev.venv_python("tree", windows=False) == os.path.join("tree", ".venv", "bin", "python")


def test_call_gives_the_status_and_lets_an_interrupted_program_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = load()
    assert real.call([sys.executable, "-c", "raise SystemExit(7)"], str(tmp_path)) == 7
    wait = subprocess.Popen.wait
    interrupts = [KeyboardInterrupt(), KeyboardInterrupt()]

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if interrupts:
            raise interrupts.pop()
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    slow = "import pathlib, time; time.sleep(0.5); pathlib.Path('done').touch()"
    with pytest.raises(KeyboardInterrupt):
        real.call([sys.executable, "-c", slow], str(tmp_path))
    assert (tmp_path / "done").exists()


def test_terminated_dev_takes_its_program_along(tmp_path: Path) -> None:
    """`make run`, killed, must not leave a comparison behind that trains on."""
    program = "import time; print('up', flush=True); time.sleep(60); open('outlived', 'w').close()"
    driver = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import dev
dev.end_on_sigterm()
dev.call([sys.executable, "-c", {program!r}], {str(tmp_path)!r})
"""
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        # The end of the pipe: whoever could still write to it is gone.
        assert process.stdout.read() == ""
        assert process.wait(30) == 143
    assert not (tmp_path / "outlived").exists()


def test_broken_links_are_named(runner: Runner) -> None:
    (runner.root / "docs" / "deep").mkdir(parents=True)
    (runner.root / "docs" / "deep" / "a.md").write_text("[up](../b.md#part) [gone](../c.md) [out](https://x.org/d.md)")
    (runner.root / "docs" / "b.md").write_text("[here](#part)\n```\n[code](no.md)\n```\n`[code](no.md)`")
    (runner.root / "README.md").write_text(
        '![p](docs/p.png) <img src="docs/q.png"> [ok](docs/b.md) [mail](mailto:a@b.c)'
    )
    assert dev.broken_links(str(runner.root)) == [
        "README.md: no such file: docs/p.png",
        "README.md: no such file: docs/q.png",
        f"{Path('docs/deep/a.md')}: no such file: ../c.md",
    ]
    dev.set_up(str(runner.root), dev.EXTRAS["check"])
    runner.take()
    assert main(runner, "check") == 1
    assert runner.take() == []
