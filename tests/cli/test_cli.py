"""The command line as a whole: lazy verbs, exit statuses, one line for bad input; and the files it writes."""

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import click
import pytest
from click.testing import CliRunner

import softgate
from softgate import cli
from softgate.cli.output import write_json
from softgate.errors import BadInput, StudyError
from softgate.files import atomic_write

HEAVY = ("torch", "numpy", "scipy", "numba", "mpmath", "ray", "plotly", "jinja2")


def run(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    how = ["-m", "softgate", *arguments] if code is None else ["-c", code]
    return subprocess.run([sys.executable, *how], capture_output=True, text=True, timeout=60)


def planted(monkeypatch: pytest.MonkeyPatch, body: object) -> None:
    """A verb `planted` that raises an error, or returns a status."""

    @click.command()
    def command() -> object:
        if isinstance(body, BaseException):
            raise body
        return body

    monkeypatch.setitem(cli.VERBS, "planted", ("tests_planted:command", "Planted."))
    module = type(sys)("tests_planted")
    module.command = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests_planted", module)


# --- verbs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", list(cli.VERBS))
def test_table_says_what_the_command_says(verb: str) -> None:
    command = cli.softgate.get_command(click.Context(cli.softgate), verb)
    assert command is not None
    assert command.name == verb
    assert command.short_help == cli.VERBS[verb][1]


def test_help_lists_every_verb_and_imports_none() -> None:
    watch = f"""
import sys
from softgate.cli import main
status = main(["--help"])
own = [module for module in sys.modules if module.startswith("softgate.")]
print(*sorted(set({HEAVY!r}) & set(sys.modules)), *own, file=sys.stderr)
sys.exit(status)
"""
    done = run(code=watch)
    assert done.returncode == 0
    assert done.stderr.split() == ["softgate.errors", "softgate.cli"]
    text = " ".join(done.stdout.split())
    for verb, (_, line) in cli.VERBS.items():
        assert f"{verb} {line}" in text


def test_no_arguments_show_the_help() -> None:
    done = run()
    assert done.returncode == 2
    assert "compare" in done.stderr
    assert "Traceback" not in done.stderr


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"softgate {softgate.__version__}\n")


# --- exit statuses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "err"),
    [
        (None, 0, ""),
        (1, 1, ""),
        (BadInput("no such text 'x'"), 2, "Error: no such text 'x'\n"),
        (StudyError("locked"), 2, "Error: locked\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "Error: No space left on device\n"),
        (PermissionError(errno.EACCES, "Permission denied", "a\n\x1b[31mb"), 2, "Error: Permission denied: a b\n"),
        (click.FileError("a.txt", "gone"), 2, "Error: Could not open file 'a.txt': gone\n"),
        (click.Abort(), 130, "interrupted; the same command continues\n"),
    ],
)
def test_exit_status_and_the_line_that_explains_it(
    body: object, status: int, err: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, body)
    assert cli.main(["planted"]) == status
    assert capsys.readouterr() == ("", err)


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    planted(monkeypatch, KeyboardInterrupt())
    assert cli.main(["planted"]) == 130
    # click ends the line that the terminal's ^C is on.
    assert capsys.readouterr() == ("", "\ninterrupted; the same command continues\n")


def test_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["planted"])


@pytest.mark.parametrize(
    "arguments",
    [["bogus"], ["--bogus"], ["show"], ["show", "a", "b"], ["compare", "--steps", "x"], ["compare", "--norm", "x"]],
)
def test_usage_errors_keep_their_form(arguments: Sequence[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: softgate")
    assert done.stderr.splitlines()[-1].startswith("Error: ")


def test_bad_name_is_one_line() -> None:
    done = run("show", "gellu")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("Error: unknown activation 'gellu'")


# print, unlike click's echo, leaves text in the buffer, which meets the full disk or the closed pipe only later.
LATE = """
import click, sys
from softgate import cli
cli.LazyGroup.get_command = lambda self, ctx, name: click.Command(name, callback=lambda: print("late"))
sys.exit(cli.main(["info"]))
"""
HOWS = [
    ["-m", "softgate", "--help"],
    ["-m", "softgate", "show", "gelu"],
    ["-m", "softgate", "show", "gelu", "--json", "-"],
    ["-c", LATE],
]


def run_into(stdout: IO[str], how: list[str]) -> tuple[int, str]:
    # With PYTHONUNBUFFERED there would be no buffer to lose.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, *how]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, env=environment)
    return done.returncode, done.stderr


@pytest.mark.parametrize("how", HOWS)
def test_full_disk_behind_standard_output_is_one_line(how: list[str]) -> None:
    with open("/dev/full", "w") as full:
        assert run_into(full, how) == (2, "Error: No space left on device\n")


@pytest.mark.parametrize("how", HOWS)
def test_closed_pipe_is_quiet(how: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        assert run_into(pipe, how) == (1, "")


# --- output -----------------------------------------------------------------------------------------------------------


def test_document_on_standard_output_is_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"schema": "softgate.x/1", "text": "Zürich \ud800 \u202e", "value": None}
    write_json(document, "-")
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (document, "")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("to_stdout", [True, False])
def test_number_that_json_lacks_writes_nothing(
    value: float, to_stdout: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "a.json"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"deep": [value]}, "-" if to_stdout else target)
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.json"
    write_json({"a": 1}, target)
    target.chmod(0o640)
    seen: list[tuple[object, object, Path]] = []
    replace = os.replace

    def watched(source: Path, place: Path) -> None:
        seen.append((json.loads(target.read_text()), json.loads(source.read_text()), source.parent))
        replace(source, place)

    monkeypatch.setattr(os, "replace", watched)
    write_json({"a": 2}, target)
    assert seen == [({"a": 1}, {"a": 2}, tmp_path)]
    assert json.loads(target.read_text()) == {"a": 2}
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [target]


def test_new_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    atomic_write(tmp_path / "a", "ü\n")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xbc\n"
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to(Path("deep") / "file")
    for text in ("first", "second"):
        atomic_write(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "deep" / "file").read_text() == text


def test_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        atomic_write(tmp_path / "pipe", "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 1


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.txt"
    atomic_write(target, "old")

    def full(source: Path, place: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BadInput, match="No space left on device"):
        atomic_write(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["missing/a.json", ".", "file/a.json", "x" * 300])
def test_unwritable_target_is_bad_input(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"^cannot write .*; give another path or make room$"):
        write_json({}, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_show_writes_only_the_document() -> None:
    """Through the group, as users do."""
    done = CliRunner().invoke(cli.softgate, ["show", "gelu", "--json", "-"])
    assert json.loads(done.stdout)["schema"] == "softgate.show/1"


# --- the package ------------------------------------------------------------------------------------------------------


def test_every_public_name_loads() -> None:
    for name in softgate.__all__:
        assert getattr(softgate, name) is getattr(softgate, name)
    assert set(softgate.__all__) <= set(dir(softgate))
    from softgate.nn import functional

    assert softgate.functional is functional
    assert softgate.get("swish").name == "silu"


def test_unknown_public_name() -> None:
    with pytest.raises(AttributeError, match="module 'softgate' has no attribute 'bogus'"):
        _ = softgate.bogus  # type: ignore[attr-defined]


def test_public_names_load_only_what_they_need() -> None:
    """Asking for an error type loads no torch; asking what there is loads nothing."""
    done = run(code=f"import sys, softgate; softgate.SoftgateError, dir(softgate); print({HEAVY!r}[0] in sys.modules)")
    assert (done.returncode, done.stdout) == (0, "False\n")
