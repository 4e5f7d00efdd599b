"""The study file: nothing lost, one owner, and one line for everything that can be wrong with it."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from studies import make_plan, make_study, make_trial

from softgate.errors import StudyError
from softgate.lab import design
from softgate.lab.store import SCHEMA, Store


def filled(folder: Path) -> Store:
    store = Store(folder)
    store.claim(make_study())
    store.set_plan(make_plan())
    store.begin_session(2)
    return store


def a_trial(seed: int = 0, loss: float | None = 1 / 3, status: str = "ok"):
    return make_trial(design.trial(make_study(), make_plan(), "gelu", "final", seed, 2e-3), loss, status)


def test_what_goes_in_comes_out_bit_for_bit(tmp_path: Path) -> None:
    trial = a_trial()
    with filled(tmp_path / "deep" / "study") as store:
        store.add(trial)
        store.note("data", {"name": "ü", "n": 1})
        store.count_retry(1)
    with Store(tmp_path / "deep" / "study", readonly=True) as store:
        assert store.trials() == [trial]
        assert store.spec() == make_study()
        assert store.plan() == make_plan()
        assert store.noted("data") == {"name": "ü", "n": 1}
        assert store.noted("nothing") is None
        assert [s["retries"] for s in store.sessions()] == [1]


def test_a_trial_is_stored_once_and_a_failed_one_can_be_replaced(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.add(a_trial(loss=None, status="failed"))
        store.add(a_trial())
        assert [t.status for t in store.trials()] == ["ok"]
        with pytest.raises(StudyError):
            store.add(a_trial(loss=0.5))
        assert [t.result["loss"] for t in store.trials()] == [1 / 3]


def test_a_number_that_json_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        with pytest.raises(ValueError, match="JSON"):
            store.add(a_trial(loss=float("nan")))
        assert store.trials() == []


def test_another_spec_is_refused_by_the_field_that_differs(tmp_path: Path) -> None:
    with filled(tmp_path) as store, pytest.raises(StudyError, match=r"margin.* was 0.01, now 0.02"):
        store.claim(make_study(margin=0.02))


def test_a_second_process_is_refused_and_a_dead_one_is_not(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from softgate.lab.store import Store\n"
        f"s = Store(Path({str(tmp_path)!r})); print('open', flush=True); input()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == b"open\n"
    with pytest.raises(StudyError, match="another process"):
        Store(tmp_path)
    other.kill()
    other.wait()
    other.stdin.close()
    other.stdout.close()
    Store(tmp_path).close()


def test_reading_does_not_need_the_lock(tmp_path: Path) -> None:
    with filled(tmp_path), Store(tmp_path, readonly=True) as reader:
        assert reader.spec() == make_study()


def planted(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "study.sqlite") as db:
        for statement in statements:
            db.execute(statement)
    db.close()


@pytest.mark.parametrize(
    ("plant", "what"),
    [
        (lambda f: planted(f, f"PRAGMA user_version = {SCHEMA + 1}"), "update softgate"),
        (lambda f: planted(f, "PRAGMA application_id = 5"), "not a softgate study"),
        (lambda f: planted(f, "UPDATE meta SET value = '{\"arms\": 3}' WHERE key = 'spec'"), "cannot read"),
        (lambda f: planted(f, "UPDATE meta SET value = 'x' WHERE key = 'spec'"), "cannot read"),
        (lambda f: planted(f, "DROP TABLE meta"), "cannot use|corrupt"),
        (lambda f: (f / "study.sqlite").write_bytes(b"this is text and not a database " * 100), "corrupt"),
        (lambda f: (f / "study.sqlite").write_bytes((f / "study.sqlite").read_bytes()[:5000]), "corrupt"),
    ],
)
@pytest.mark.parametrize("readonly", [False, True])
def test_damaged_files_are_one_line(tmp_path: Path, plant, what: str, readonly: bool) -> None:
    filled(tmp_path).close()
    plant(tmp_path)
    with pytest.raises(StudyError, match=what) as caught, Store(tmp_path, readonly=readonly) as store:
        store.spec()
    assert "\n" not in str(caught.value)


def test_a_trials_json_that_was_tampered_with_is_one_line(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.add(a_trial())
    planted(tmp_path, "UPDATE trials SET result = '{'")
    with Store(tmp_path) as store, pytest.raises(StudyError, match="cannot read"):
        store.trials()


def test_no_study_and_no_folder_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"no study in .*study\.sqlite"):
        Store(tmp_path, readonly=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StudyError, match="cannot write"):
        Store(tmp_path / "file" / "below")


def test_a_full_disk_says_so_and_keeps_what_is_finished(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.add(a_trial(seed=0))
        # SQLite's own limit stands in for the disk: the error is the same SQLITE_FULL.
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        big = a_trial(seed=1)
        big.result["curve"]["loss"] = [0.1] * 10_000
        with pytest.raises(StudyError, match="free some disk space"):
            store.add(big)
        assert [t.spec.seed for t in store.trials()] == [0]
