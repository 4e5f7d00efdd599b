"""softgate show: what it prints, its JSON document, its page, and that it loads torch late and writes whole files."""

from __future__ import annotations

import html
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner, Result

from softgate import acts
from softgate.cli.show import show
from softgate.errors import BadInput, UnknownActivation
from softgate.theory import moments

EVERY = (*acts.names(), *acts.names(gated=True))


def run(*arguments: str, columns: int = 80) -> Result:
    return CliRunner().invoke(show, list(arguments), env={"COLUMNS": str(columns)}, prog_name="show")


def good(*arguments: str, columns: int = 80) -> Result:
    result = run(*arguments, columns=columns)
    assert result.exit_code == 0, result.output
    return result


def test_is_a_command_that_loads_no_torch_until_it_runs() -> None:
    assert isinstance(show, click.Command)
    code = "import sys, softgate.cli.show; print([m for m in ('torch', 'numpy', 'jinja2') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize("name", EVERY)
def test_prints_the_whole_record_its_moments_and_a_plot(name: str, columns: int) -> None:
    record = acts.get(name)
    result = good(name, columns=columns)
    words = re.sub(r"\s+", "", result.stdout)
    for text in (str(record), record.latex, str(moments(name))):
        assert re.sub(r"\s+", "", text) in words
    width = max(32, min(columns, 100))
    assert max(map(len, result.stdout.splitlines())) <= width
    assert result.stdout.isascii()
    assert ("atup=1" in words) == record.gated
    assert result.stderr == ""


def plotted(name: str, columns: int = 80) -> list[str]:
    """The 15 rows of the plot without their labels."""
    rows = good(name, columns=columns).stdout.rstrip().splitlines()[-17:-2]
    return [row[8:].ljust(columns - 8) for row in rows]


def test_the_plot_is_the_curve() -> None:
    rows = plotted("identity", columns=81)
    # A line from the bottom left to the top right, through the origin; its slope is 1 everywhere.
    assert [rows[14 - i].index("*") for i in range(15)] == sorted(rows[14 - i].index("*") for i in range(15))
    assert rows[14].startswith("*")
    assert rows[0].rstrip().endswith("*")
    assert rows[7][36] == "*"
    assert any(row.count(".") > 60 for row in rows)
    relu = plotted("relu")
    assert relu[14].startswith("*" * 36)
    assert relu[0].rstrip().endswith("*")


def test_the_gated_plot_is_the_slice_at_one() -> None:
    assert plotted("swiglu") == plotted("silu")
    assert plotted("swiglu") != plotted("geglu")


@pytest.mark.parametrize("name", EVERY)
def test_json_to_standard_output_is_nothing_but_the_document(name: str) -> None:
    result = good(name, "--json", "-")
    document = json.loads(result.stdout, parse_constant=pytest.fail)
    record = acts.get(name)
    assert list(document) == ["schema", "record", "moments", "curve"]
    assert document["schema"] == "softgate.show/1"
    assert document["record"] == record.to_dict()
    assert document["moments"] == moments(name).to_dict()
    curve = document["curve"]
    x = torch.tensor(curve["x"], dtype=torch.float64)
    assert len(x) == 161
    assert x[[0, 80, 160]].tolist() == [-4.0, 0.0, 4.0]
    if isinstance(record, acts.GatedActivation):
        up = torch.ones_like(x)
        wanted = record.value(x, up), record.slopes(x, up)[0]
        assert curve["up"] == 1.0
    else:
        wanted = record.value(x), record.slope(x)
        assert curve["up"] is None
        assert curve["reasons"] == {"up": "a plain activation has one argument"}
    assert curve["value"] == wanted[0].tolist()
    assert curve["slope"] == wanted[1].tolist()


def test_an_alias_shows_its_record() -> None:
    assert good("gelu_new", "--json", "-").stdout == good("gelu_tanh", "--json", "-").stdout


def test_json_file_and_page_are_written_beside_the_text(tmp_path: Path) -> None:
    data, page = tmp_path / "a.json", tmp_path / "a.html"
    result = good("gelu", "--json", str(data), "--html", str(page))
    assert result.stdout == good("gelu").stdout
    assert data.read_text() == good("gelu", "--json", "-").stdout
    assert f"page: {page}" in result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "a.json"]
    # With the document on standard output, the page's line must not be there.
    json.loads(good("gelu", "--json", "-", "--html", str(page)).stdout)


@pytest.mark.parametrize("name", EVERY)
def test_the_page_is_small_whole_and_self_contained(name: str, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    good(name, "--html", str(target))
    page = target.read_text()
    record = acts.get(name)
    assert len(page) < 16_000
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|<script|<link", page)
    assert f"<h1>{html.escape(record.title)}</h1>" in page
    assert f"<p><code>{record.formula}</code></p>" in html.unescape(page)
    for table in (record._repr_html_(), moments(name)._repr_html_()):
        assert table in page
    curves = {kind: points(page, kind) for kind in ("value", "slope")}
    assert all(len(curve) == 161 for curve in curves.values())
    # The higher a value, the smaller its y: order is kept between the curves.
    document = json.loads(good(name, "--json", "-").stdout)["curve"]
    drawn = [y for kind in ("value", "slope") for _, y in curves[kind]]
    true = [*document["value"], *document["slope"]]
    top, bottom = drawn[true.index(max(true))], drawn[true.index(min(true))]
    for y, value in zip(drawn, true, strict=True):
        share = (max(true) - value) / (max(true) - min(true))
        assert math.isclose(y, top + share * (bottom - top), abs_tol=0.11)
    assert [x for x, _ in curves["value"]][::80] == [0.0, 240.0, 480.0]


def points(page: str, kind: str) -> list[tuple[float, float]]:
    found = re.search(rf'<polyline class="{kind}" points="([^"]*)"', page)
    assert found is not None
    pairs = (pair.split(",") for pair in found[1].split())
    return [(float(x), float(y)) for x, y in pairs]


def test_the_page_escapes_what_a_record_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = acts.get("relu")
    hostile = "<script>alert('&')</script>"
    for field in ("title", "formula", "latex", "reference"):
        monkeypatch.setitem(vars(record), field, hostile)
    target = tmp_path / "page.html"
    good("relu", "--html", str(target))
    page = target.read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6


def test_unknown_name_is_softgates_error() -> None:
    result = run("gellu")
    assert isinstance(result.exception, UnknownActivation)
    assert result.stdout == ""


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_a_file_that_cannot_be_written_is_refused_and_nothing_is_left(option: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "missing" / "a", tmp_path / "folder" / ("n" * 300)):
        result = run("gelu", option, str(path))
        assert isinstance(result.exception, BadInput)
        assert str(result.exception).startswith("cannot write ")
        assert "\n" not in str(result.exception)
        assert result.stdout == ""
    assert [p.name for p in tmp_path.rglob("*")] == ["folder"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.json"
    target.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    result = run("gelu", "--json", str(target))
    assert isinstance(result.exception, BadInput)
    assert "No space left on device" in str(result.exception)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
