"""The page as text: self-contained, in order, true to the document, with foreign text inert; and written whole."""

from __future__ import annotations

import base64
import errno
import hashlib
import html
import json
import os
import re
import time
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from softgate.errors import BadInput, clean
from softgate.lab.report import render, write

Document = dict[str, Any]
Make = Callable[..., Document]


class Page(HTMLParser):
    """Tags with attributes, and the text a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self._inside = ""
        self.feed(page)
        self.text = re.sub(r"\s+", " ", "".join(self.words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        self._inside = tag if tag in ("script", "style") else self._inside
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag in ("tr", "td", "th", "p", "li", "small", "dd", "dt", "h1", "h2", "h3"):
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif not self._inside:
            self.words.append(data)
            if self.headings and not self.headings[-1][1]:
                self.headings[-1] = (self.headings[-1][0], data.strip())

    def named(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_sections_come_in_order(make: Make) -> None:
    page = Page(render(make("example")))
    assert [text for level, text in page.headings if level == 2] == [
        *("Verdict", "Paired differences", "Loss curves", "Learning rate", "Health of the units"),
        *("Time and memory", "Every run", "Plan and provenance"),
    ]


def test_blocks_that_are_null_are_left_out(make: Make) -> None:
    page = Page(render(make("bare")))
    headings = [text for level, text in page.headings if level == 2]
    assert headings == ["Verdict", "Paired differences", "Every run", "Plan and provenance"]
    assert "Perplexity" not in page.text
    assert "not available all 3 runs failed" in page.text
    assert "0.871 n = 3, −0.002 from the baseline" in page.text


def test_headings_never_jump(document: Document) -> None:
    levels = [level for level, _ in Page(render(document)).headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_verdict_stands_first_and_says_the_numbers(make: Make) -> None:
    text = Page(render(make("example"))).text
    order = [
        text.index(part)
        for part in (
            "swiglu is better than relu",
            "better (−0.0124 nats/byte) −0.0124",
            "6 of 8 1 diverged, 1 failed",
            "Forest plot",
        )
    ]
    assert order == sorted(order)


def test_partial_is_said_only_of_a_partial_study(make: Make) -> None:
    assert "This report is partial." in Page(render(make("example", complete=False))).text
    assert "This report is partial." not in Page(render(make("example"))).text


def test_every_run_is_shown_with_its_fate(make: Make) -> None:
    document = make("example")
    page = render(document)
    text = Page(page).text
    assert f"All {len(document['trials'])} runs" in text
    assert all(trial["key"][:12] in text for trial in document["trials"])
    assert "diverged loss is NaN at step 212" in text
    assert "failed MemoryError in swiglu" in text


def test_provenance_holds_command_environment_and_hashes(make: Make) -> None:
    document = make("example")
    text = Page(render(document)).text
    assert document["command"] in text
    for value in ("2.13.0+cpu", "AMD EPYC", document["environment"]["text_hash"], "budget 20 min, seeds 16"):
        assert value in text


def test_numbers_have_a_real_minus(document: Document) -> None:
    assert not re.findall(r"(?<![\w.:)])-\d", Page(render(document)).text)


def test_nothing_points_outside(document: Document) -> None:
    for tag, attributes in Page(render(document)).tags:
        for key in ("src", "href", "srcset", "action", "poster", "data"):
            assert attributes.get(key, "#").startswith(("#", "data:")), (tag, attributes)
        assert "url(" not in attributes.get("style", "")
        assert not [key for key in attributes if key.startswith("on")]


def test_foreign_text_stays_text(make: Make, hostile_names: tuple[str, ...]) -> None:
    page = Page(render(make("hostile")))
    charts = [script for script in page.named("script") if script.get("type") == "application/json"]
    assert len(page.named("script")) == len(charts) + 2
    for tag in ("img", "b", "u", "i", "em", "iframe"):
        assert not page.named(tag), tag
    squeezed = [re.sub(r"\s+", " ", clean(name)) for name in hostile_names]
    assert [name for name in squeezed if name.strip() not in page.text] == []
    assert "49" not in [cell.strip() for cell in page.words]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\x07]", page.text)


def test_embedded_figures_are_json_and_leave_their_element_in_no_way(document: Document) -> None:
    page = render(document)
    parts = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert parts
    for part in parts:
        json.loads(part, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert not re.search("[<>&\u2028\u2029]", part)


def test_the_policy_lets_exactly_our_scripts_run(make: Make) -> None:
    page = render(make("hostile"))
    policy = re.search(r"script-src (.*?); style-src", page)
    assert policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert len(scripts) == 2
    assert html.unescape(policy[1]) == " ".join(f"'sha256-{value}'" for value in hashes)


def test_every_table_has_caption_and_scopes_and_every_chart_a_table(document: Document) -> None:
    page = Page(render(document))
    assert len(page.named("caption")) == len(page.named("table"))
    assert {attributes.get("scope") for attributes in page.named("th")} == {"col", "row"}
    assert len(page.named("details")) == len(page.named("figure")) > 0


def test_other_schemas_are_refused(make: Make) -> None:
    with pytest.raises(BadInput, match=r"softgate\.compare/1, not from softgate\.compare/2"):
        render(make("example") | {"schema": "softgate.compare/2"})


def test_rendering_takes_less_than_a_second(make: Make) -> None:
    document = make("example", [f"arm {i}" for i in range(12)], seeds=16)
    render(document)
    # Of the processor, not of the clock: other tests may run beside.
    start = time.process_time()
    render(document)
    assert time.process_time() - start < 1.0


def test_write_leaves_the_page_and_nothing_else(make: Make, tmp_path: Path) -> None:
    document = make("hostile")
    write(document, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_bytes().decode() == render(document)


def test_a_full_disk_leaves_the_old_report(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BadInput, match="No space left on device"):
        write(make("bare"), target)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert target.read_text() == "old"


def test_a_missing_folder_is_one_line(make: Make, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        write(make("bare"), tmp_path / "no\nfolder" / "report.html")
    assert "\n" not in str(caught.value)
    assert "cannot write" in str(caught.value)
