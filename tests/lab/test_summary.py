"""From planted trials to the document: pairs, words, targets, equal time, divergence, partial studies."""

import json
import math
from typing import Any

import pytest
from studies import complete, make_plan, make_study, make_trial

from softgate.lab import design, stats, summary
from softgate.lab.spec import TrialSpec

SESSIONS = [{"id": 1, "started": 0.0, "workers": 2, "retries": 0}]
EFFECT = {"relu": 0.0, "gelu": -0.05, "swiglu": 0.002}


def loss_of(spec: TrialSpec) -> float:
    """relu 2.0 at its best rate; a bowl around 2e-3; 0.3 more at half the steps; a little noise by seed and arm."""
    assert spec.lr is not None
    bowl = math.log2(spec.lr / 2e-3) ** 2
    noise = 0.001 * (hash_of(f"{spec.arm}{spec.seed}{spec.order_seed}") - 0.5)
    shared = 0.02 * (spec.seed % 4)
    return 2.0 + EFFECT[spec.arm] + bowl + (0.3 if spec.phase == "pilot" else 0.0) + noise + shared


def hash_of(text: str) -> float:
    return (sum(ord(c) * 31**i for i, c in enumerate(text)) % 1000) / 1000


def build(drop: int = 0, change: Any = None, **changes: Any) -> dict[str, Any]:
    study, plan = make_study(**changes), make_plan()
    losses, order = complete(study, plan, loss_of)
    trials = [make_trial(spec, losses[spec.key], finished=float(i)) for i, spec in enumerate(order)]
    if change is not None:
        trials = [change(t) for t in trials]
    return summary.document(
        study, plan, trials[: len(trials) - drop], SESSIONS, data=None, command="softgate compare", created="2026-01-01"
    )


def arm(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(a for a in document["arms"] if a["arm"] == name)


def test_differences_are_paired_by_seed_and_judged_by_the_statistics() -> None:
    document = build()
    study, plan = make_study(), make_plan()
    assert document["complete"]
    for name in ("gelu", "swiglu"):
        by_seed = [
            loss_of(design.trial(study, plan, name, "final", s, 2e-3))
            - loss_of(design.trial(study, plan, "relu", "final", s, 2e-3))
            for s in range(4)
        ]
        expected = stats.paired(by_seed, margin=0.01)
        row = arm(document, name)
        assert row["difference"] == pytest.approx(expected.mean, abs=1e-12)
        assert row["interval"] == pytest.approx(list(expected.interval), abs=1e-12)
        assert row["n"] == 4
        assert row["perplexity_ratio"]["estimate"] == pytest.approx(math.exp(expected.mean))
        # The shared part of a seed (up to 0.06) is gone from the pairs.
        assert row["sd"] < 0.001
        assert row["loss_sd"] > 0.02
    assert arm(document, "gelu")["verdict"] == "better"
    assert arm(document, "swiglu")["words"].startswith(("equivalent", "worse"))
    assert arm(document, "relu")["verdict"] == "baseline"
    assert arm(document, "relu")["difference"] is None


def test_the_document_is_json_and_its_words_carry_figures() -> None:
    document = build()
    json.dumps(document, allow_nan=False)
    sentence = document["headline"][0]
    assert sentence.startswith("gelu is better than relu")
    assert "95 % interval" in sentence
    assert "4 pairs" in sentence
    assert "perplexity" in sentence


def test_the_noise_floor_is_the_aa_arm_and_takes_no_part_in_the_verdicts() -> None:
    document = build()
    floor = document["noise_floor"]
    row = arm(document, "relu (A/A)")
    assert floor["difference"] == row["difference"]
    assert row["verdict"] == "undecided"
    assert row["p_holm"] is None
    assert floor["inside"] == (floor["interval"][0] <= 0 <= floor["interval"][1])


def test_a_diverged_run_is_counted_and_costs_its_pair() -> None:
    def diverge(trial: Any) -> Any:
        spec = trial.spec
        if (spec.arm, spec.phase, spec.seed) == ("gelu", "final", 2):
            return make_trial(spec, None, "diverged")
        return trial

    document = build(change=diverge)
    row = arm(document, "gelu")
    assert (row["n"], row["diverged"], row["planned"]) == (3, 1, 4)
    assert any("gelu 1 of 4" in line for line in document["headline"])
    assert [t["status"] for t in document["trials"]].count("diverged") == 1
    assert document["complete"]


def test_a_seed_the_baseline_lost_costs_every_arm_its_pair() -> None:
    def diverge(trial: Any) -> Any:
        lost = (trial.spec.arm, trial.spec.phase, trial.spec.seed) == ("relu", "final", 1)
        return make_trial(trial.spec, None, "diverged") if lost else trial

    document = build(change=diverge)
    assert {a["arm"]: a["n"] for a in document["arms"]} == {"relu": 3, "relu (A/A)": 3, "gelu": 3, "swiglu": 3}
    assert arm(document, "gelu")["diverged"] == 0


def test_an_arm_with_less_than_two_pairs_is_undecided_with_a_reason() -> None:
    def fail(trial: Any) -> Any:
        spec = trial.spec
        if spec.arm == "gelu" and spec.phase == "final" and spec.seed > 0:
            return make_trial(spec, None, "failed")
        return trial

    row = arm(build(change=fail), "gelu")
    assert row["verdict"] == "undecided"
    assert "1 complete pairs of 4" in row["reason"]
    assert row["interval"] is None
    assert row["failed"] == 3


@pytest.mark.parametrize("drop", [1, 5, 12, 20, 24])
def test_a_partial_study_has_a_document_at_every_point(drop: int) -> None:
    document = build(drop=drop)
    json.dumps(document, allow_nan=False)
    assert not document["complete"]
    assert "not finished" in document["headline"][0]


def test_equal_time_interpolates_between_completed_runs() -> None:
    def slower(trial: Any) -> Any:
        if trial.spec.arm == "gelu":
            trial.result["tokens_per_second"] = 800.0
        return trial

    document = build(change=slower)
    row = arm(document, "gelu")
    # The pilot loss is 0.3 higher at half the steps (seeds differ by up to 0.06, 1e-3 of noise):
    # 1 / 0.8 of the time a step costs log2(1.25) of that.
    pilot = next(r["loss"] for r in document["pilot"] if r["arm"] == "gelu" and r["chosen"])
    cost = (pilot - row["loss"]) * math.log2(1.25)
    assert row["equal_time"]["loss"] == pytest.approx(row["loss"] + cost, abs=1e-9)
    assert row["equal_time"]["difference"] == pytest.approx(row["difference"] + cost, abs=1e-9)
    assert arm(document, "relu")["equal_time"]["loss"] == pytest.approx(arm(document, "relu")["loss"])
    assert row["speed"]["time_ratio"]["estimate"] == pytest.approx(1.25)


def test_the_common_target_is_reached_by_all_and_interpolated() -> None:
    document = build()
    targets = {a["to_target"]["target"] for a in document["arms"]}
    worst = max(t["loss"] for t in document["trials"] if t["phase"] != "pilot")
    assert len(targets) == 1
    assert targets.pop() == pytest.approx(worst)
    gelu = arm(document, "gelu")["to_target"]
    # Between step 50 (0.5 above the end) and step 100 the planted curves fall by 0.01 a step.
    ends = [t["loss"] for t in document["trials"] if t["phase"] == "final" and t["arm"] == "gelu"]
    expected = sum(100 - (worst - end) / 0.01 for end in ends) / 4
    assert gelu["steps"] == pytest.approx(expected)
    assert gelu["steps_ratio"]["estimate"] < 1


def test_the_pilot_is_shown_with_its_choice_and_a_common_rate() -> None:
    document = build()
    assert [(r["lr"], r["chosen"]) for r in document["pilot"] if r["arm"] == "relu"] == [
        (1e-3, False), (2e-3, True), (4e-3, False),
    ]  # fmt: skip
    assert arm(document, "gelu")["common_lr"]["lr"] == 2e-3
    assert arm(document, "gelu")["common_lr"]["difference"] == pytest.approx(-0.05, abs=2e-3)
    assert arm(document, "relu (A/A)")["common_lr"] is None


def test_busy_share_counts_every_session_to_its_last_trial() -> None:
    study, plan = make_study(), make_plan()
    specs = design.needed(study, plan, {})[:4]
    trials = [make_trial(spec, 2.0, finished=f) for spec, f in zip(specs, (2.0, 4.0, 102.0, 103.0), strict=True)]
    trials[2:] = [type(t)(**{**{f: getattr(t, f) for f in t.__struct_fields__}, "session": 2}) for t in trials[2:]]
    sessions = [*SESSIONS, {"id": 2, "started": 100.0, "workers": 1, "retries": 3}]
    found = summary.execution(trials, sessions)
    assert found["wall_seconds"] == 4.0 + 3.0
    assert found["busy_share"] == pytest.approx(8.0 / (4.0 * 2 + 3.0))
    assert found["retries"] == 3


def test_perplexity_belongs_to_nats_a_byte_only() -> None:
    assert arm(build(unit="loss"), "gelu")["perplexity_ratio"] is None
