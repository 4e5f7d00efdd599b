"""Charts: valid for Plotly, true to the document, each with caption and table, texts escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import plotly.graph_objects as go
import pytest

from softgate.lab.report import curves, draw, figures, layers, tables
from softgate.lab.report.draw import Figure
from softgate.lab.report.render import _sections
from softgate.lab.report.tables import View

Document = dict[str, Any]
Make = Callable[..., Document]


def every(view: View) -> list[Figure]:
    return [block for section in _sections(view) for block in section.blocks if isinstance(block, Figure)]


def resolved(value: Any) -> Any:
    """A figure as the page's script hands it to Plotly: names of colours replaced."""
    if isinstance(value, dict):
        return {key: resolved(item) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item) for item in value]
    return "#000000" if isinstance(value, str) and re.fullmatch(r"--(ink|aa|[a-z]+(-\d)?)", value) else value


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def test_every_figure_is_valid_for_plotly(document: Document) -> None:
    made = every(tables.view(document))
    assert made
    for figure in made:
        go.Figure(resolved(figure.spec))


def test_plotly_would_notice_a_wrong_figure(make: Make) -> None:
    spec = resolved(figures.forest(tables.view(make("example"))).spec)
    spec["data"][0]["marker"]["symbol"] = "no such symbol"
    with pytest.raises(ValueError, match="symbol"):
        go.Figure(spec)


def test_the_example_has_every_chart(make: Make) -> None:
    assert [figure.key for figure in every(tables.view(make("example")))] == [
        *("forest", "curves", "curves-late", "pilot", "dead", "saturated", "rms", "kurtosis", "slopes", "gradients"),
        *("equal-time", "cost", "tokens-per-second", "peak-memory-bytes", "saved-bytes-per-token", "seeds"),
    ]


def test_blocks_without_numbers_make_no_chart(make: Make) -> None:
    assert [figure.key for figure in every(tables.view(make("bare")))] == ["forest", "seeds"]


def test_captions_say_n_interval_and_unit(document: Document) -> None:
    unit = document["metric"]["unit"]
    for figure in every(tables.view(document)):
        assert re.search(r"\bn(\s=|:)\s", figure.caption), figure.key
        assert "interval" in figure.caption, figure.key
        units = (unit, "no unit", "share of", "Share of", "tokens/s", "bytes")
        assert any(word in figure.caption for word in units), figure.key
        assert figure.label.endswith("."), figure.key
        assert figure.table.rows, figure.key


def test_forest_draws_what_the_document_says(make: Make) -> None:
    document = make("example")
    document["arms"].insert(1, document["arms"].pop())
    figure = figures.forest(tables.view(document))
    # The noise floor comes last wherever the document has it.
    document["arms"].append(document["arms"].pop(1))
    others = [arm for arm in document["arms"] if arm["role"] != "baseline"]
    for row, (trace, arm) in enumerate(zip(figure.spec["data"], others, strict=True)):
        middle, (low, high) = arm["difference"], arm["interval"]
        assert trace["x"] == [middle]
        assert trace["y"] == [row]
        assert trace["x"][0] - trace["error_x"]["arrayminus"][0] == pytest.approx(low)
        assert trace["x"][0] + trace["error_x"]["array"][0] == pytest.approx(high)
    assert figure.spec["layout"]["yaxis"]["ticktext"] == ["gelu", "swiglu", "relu (A/A)<br>noise floor"]
    band, *lines = figure.spec["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (-0.01, 0.01)
    assert [line["x0"] for line in lines] == [-0.01, 0.01, 0.0]
    assert [row[1].text for row in figure.table.rows] == ["−0.0124", "−0.0287", "+0.0009"]


def test_an_arm_without_a_difference_keeps_its_row(make: Make) -> None:
    figure = figures.forest(tables.view(make("bare")))
    assert figure.spec["layout"]["yaxis"]["ticktext"] == ["other loop", "broken loop"]
    assert [note["text"] for note in figure.spec["layout"]["annotations"]] == ["not available"]
    assert figure.table.rows[1][1] == tables.Cell("not available", "all 3 runs failed")


def test_curves_draw_band_line_and_ngrams(make: Make) -> None:
    document = make("example")
    figure = curves.curves(tables.view(document))
    assert figure is not None
    band, line = figure.spec["data"][:2]
    curve = document["arms"][0]["curve"]
    assert (line["x"], line["y"]) == (curve["steps"], curve["mean"])
    assert band["y"] == curve["high"] + curve["low"][::-1]
    levels = [trace["y"] for trace in figure.spec["data"][-3:]]
    assert levels == [[3.3121] * 2, [2.6034] * 2, [2.0801] * 2]
    assert [note["text"] for note in figure.spec["layout"]["annotations"]] == ["unigram", "bigram", "trigram"]
    assert len(figure.table.rows) == len(curve["steps"]) + 3


def test_late_curves_hold_the_second_half_only(make: Make) -> None:
    figure = curves.curves(tables.view(make("example")), late=True)
    assert figure is not None
    assert min(min(trace["x"]) for trace in figure.spec["data"]) >= 300
    assert [note["text"] for note in figure.spec["layout"]["annotations"]] == ["trigram"]


def test_points_without_a_value_are_left_out_of_the_line_and_told_in_the_table(make: Make) -> None:
    document = make("example")
    document["arms"][1]["curve"]["mean"][3] = None
    figure = curves.curves(tables.view(document))
    assert figure is not None
    assert len(figure.spec["data"][3]["x"]) == 15
    assert figure.table.rows[3][2].text == "not available"


def test_lost_runs_are_crosses(make: Make) -> None:
    view = tables.view(make("example"))
    for figure, count in ((curves.pilot(view), 1), (curves.seeds(view), 2)):
        assert figure is not None
        crosses = [trace for trace in figure.spec["data"] if trace.get("yaxis") == "y2"]
        assert sum(len(trace["x"]) for trace in crosses) == count
        assert [label for trace in crosses for label in trace["text"] if label] == ["swiglu"]
        assert "ross" in figure.caption


def test_pilot_rings_the_chosen_rate(make: Make) -> None:
    figure = curves.pilot(tables.view(make("example")))
    assert figure is not None
    line = figure.spec["data"][0]
    assert [x for x, size in zip(line["x"], line["marker"]["size"], strict=True) if size > 10] == [0.004]


def test_layers_and_slopes_are_those_of_the_document(make: Make) -> None:
    document = make("example")
    charts = {figure.key: figure for figure in layers.health(tables.view(document))}
    found = [layer for arm in document["arms"] for layer in arm["health"]["layers"]]
    for key in ("dead", "saturated", "rms", "kurtosis"):
        assert [y for trace in charts[key].spec["data"] for y in trace["y"]] == [layer[key] for layer in found]
    assert charts["slopes"].spec["data"][0]["z"] == [list(layer["small_slope"].values()) for layer in found]
    assert len(charts["slopes"].table.rows) == len(found)
    assert charts["gradients"].spec["data"][1]["x"] == list(document["arms"][1]["health"]["gradient_ratio"].values())


def test_costs_and_amounts_are_those_of_the_document(make: Make) -> None:
    document = make("example")
    view = tables.view(document)
    cost = figures.costs(view)
    arms = [arm for arm in document["arms"] if arm["role"] == "arm"]
    assert cost.spec["data"][0]["x"] == [arm["speed"]["time_ratio"]["estimate"] for arm in arms]
    assert cost.spec["data"][2]["x"] == [arm["to_target"]["seconds_ratio"]["estimate"] for arm in arms]
    bars = {figure.key: figure.spec["data"][0]["x"] for figure in figures.amounts(view)}
    assert bars["peak-memory-bytes"] == [arm["speed"]["peak_memory_bytes"] for arm in document["arms"]]


def test_looks_differ_in_more_than_colour(make: Make) -> None:
    view = tables.view(make("example", [f"arm {i}" for i in range(60)]))
    looks = [(look["color"], look["dash"], look["symbol"]) for look in draw.looks(view).values()]
    assert len(set(looks)) == len(looks)
    # The first arms, which is nearly every study, differ in each sign alone.
    for sign in range(3):
        assert len({look[sign] for look in looks[:5]}) == 5


def test_labels_are_short_and_differ(make: Make) -> None:
    view = tables.view(make("example", ["a long name in common 1", "a long name in common 2", "relu\u202e", "relu"]))
    labels = [view.label(arm["arm"]) for arm in view.arms]
    assert labels[:4] == ["a long name in co…", "a long name in co… (2)", "relu", "relu (2)"]
    assert len(set(labels)) == len(labels)


def test_no_text_of_a_figure_holds_markup_but_our_line_breaks(make: Make) -> None:
    for figure in every(tables.view(make("hostile"))):
        texts = list(strings(figure.spec))
        assert not [text for text in texts if "<" in text.replace("<br>", "")], figure.key
        # A template would read %{x} out of a name.
        assert "hovertemplate" not in json.dumps(figure.spec), figure.key
