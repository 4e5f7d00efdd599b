"""softgate info: true of this process, whole as JSON, and plain about what is missing."""

import json
import platform
from importlib import metadata
from pathlib import Path

import pytest
import torch

from softgate import cli
from softgate.cli import info
from softgate.lab.environment import source_hash


def test_document_says_what_is_true_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "info.json"
    assert cli.main(["info", "--json", str(target)]) == 0
    table = capsys.readouterr().out
    document = json.loads(target.read_text())
    assert document["schema"] == "softgate.info/1"
    assert document["versions"]["python"] == platform.python_version()
    assert document["versions"]["torch"] == metadata.version("torch")
    assert set(document["versions"]) == {"softgate", "python", "torch", "numpy", "scipy", "numba", "plotly"}
    assert document["source"] == source_hash()
    assert document["cpu"]["capability"] == torch.backends.cpu.get_cpu_capability()
    assert document["extras"]["test"]["pytest"] == pytest.__version__
    for shown in (document["versions"]["torch"], document["cpu"]["model"], document["source"]):
        assert shown in table


def test_json_on_standard_output_is_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "softgate.info/1"


def test_threads_are_those_of_this_process() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        assert info.facts()["threads"] == before + 1
    finally:
        torch.set_num_threads(before)


def test_variables_are_shown_when_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in info.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1\nfalse_row  2")
    assert info.facts()["variables"]["OMP_NUM_THREADS"] == "1\nfalse_row  2"
    assert info.facts()["variables"]["MKL_NUM_THREADS"] is None
    cli.main(["info"])
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if "_" in line.split()[0]] == ["OMP_NUM_THREADS"]


def test_extras_come_from_the_metadata() -> None:
    requirements = [
        "click>=8.1",
        'pytest>=8.3; extra == "test"',
        "no-such.package_x[a]<6,>=4; python_version > '3' and extra == 'hf'",
        "colorama; sys_platform == 'win32'",
    ]
    assert info.extras(requirements) == {"test": {"pytest": pytest.__version__}, "hf": {"no-such.package_x": None}}


def test_missing_package_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(info, "version", lambda package: None if package in ("plotly", "pytest") else "1.0")
    cli.main(["info"])
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["plotly"].endswith("not installed")
    assert lines["extra test"].endswith("missing pytest; pip install 'softgate[test]'")
    assert lines["extra dev"].endswith("installed")
