"""The study file: SQLite, one transaction a trial, so that whatever is killed loses at most the trial it was in."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from softgate.errors import StudyError, clean
from softgate.lab.spec import Plan, StudySpec, TrialSpec

T = TypeVar("T")

SCHEMA = 1
APPLICATION = 0x53474154  # "SGAT": tells a study from any other SQLite file

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY, started REAL NOT NULL, workers INTEGER NOT NULL, retries INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE trials (
  key TEXT PRIMARY KEY, arm TEXT NOT NULL, phase TEXT NOT NULL, seed INTEGER NOT NULL, lr REAL, steps INTEGER NOT NULL,
  status TEXT NOT NULL, loss REAL, spec TEXT NOT NULL, result TEXT NOT NULL, environment TEXT NOT NULL,
  session INTEGER NOT NULL REFERENCES sessions(id), seconds REAL NOT NULL, finished REAL NOT NULL
);
"""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A finished trial as it is stored. status: "ok", "diverged" or "failed"."""

    spec: TrialSpec
    status: str
    result: dict[str, Any]
    environment: dict[str, Any]
    session: int
    seconds: float
    finished: float


class Store:
    """An open study file, held by one process at a time.

    Raises StudyError, with one line, when the file is locked by another process, corrupt, of a newer schema, not a
    study, of another specification, or when the folder cannot be written.
    """

    def __init__(self, folder: Path, *, readonly: bool = False) -> None:
        self.folder = folder
        self.path = folder / "study.sqlite"
        self._lock: sqlite3.Connection | None = None
        if readonly and not self.path.is_file():
            raise StudyError(f"no study in '{clean(folder)}'; name a folder that holds study.sqlite")
        with self._plainly():
            if not readonly:
                _writable(folder)
                self._lock = self._take_lock()
            try:
                self._db = sqlite3.connect(self._uri(readonly), uri=True, isolation_level=None)
                self._check_or_create(readonly)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and give the lock back."""
        if hasattr(self, "_db"):
            self._db.close()
        if self._lock is not None:
            self._lock.close()

    def spec(self) -> StudySpec | None:
        """What the study was made for; None in a new file."""
        text = self._meta("spec")
        return None if text is None else self._decode(text, StudySpec)

    def claim(self, spec: StudySpec) -> None:
        """Make this file the study of `spec`, or check that it is."""
        stored = self.spec()
        if stored is None:
            self._set_meta("spec", msgspec.json.encode(spec).decode())
        elif stored != spec:
            fields = stored.differences(spec)
            first = fields[0]
            was, now = (clean(getattr(s, first), 60) for s in (stored, spec))
            raise StudyError(
                f"the study in '{clean(self.folder)}' was made with other settings "
                f"({', '.join(fields)}; {first} was {was}, now {now}); name another --study or repeat its command"
            )

    def plan(self) -> Plan | None:
        """The stored plan; None before there is one."""
        text = self._meta("plan")
        return None if text is None else self._decode(text, Plan)

    def set_plan(self, plan: Plan) -> None:
        """Store the plan; every later resume uses it."""
        self._set_meta("plan", msgspec.json.encode(plan).decode())

    def note(self, name: str, value: Any) -> None:
        """Store a JSON value that belongs to the study (data summary, command)."""
        self._set_meta(f"note:{name}", json.dumps(value, allow_nan=False))

    def noted(self, name: str) -> Any:
        """A value stored by `note`, or None."""
        text = self._meta(f"note:{name}")
        return None if text is None else self._decode(text, object)

    def begin_session(self, workers: int) -> int:
        """Open a session: the time from here to its last trial counts as wall time."""
        with self._plainly(), self._transaction():
            cursor = self._db.execute("INSERT INTO sessions (started, workers) VALUES (?, ?)", (time.time(), workers))
            return int(cursor.lastrowid or 0)

    def count_retry(self, session: int) -> None:
        """Note that a worker died and its trial was given to another."""
        with self._plainly(), self._transaction():
            self._db.execute("UPDATE sessions SET retries = retries + 1 WHERE id = ?", (session,))

    def sessions(self) -> list[dict[str, Any]]:
        """Started, workers and retries of every session, in order."""
        with self._plainly():
            rows = self._db.execute("SELECT id, started, workers, retries FROM sessions ORDER BY id").fetchall()
        return [dict(zip(("id", "started", "workers", "retries"), row, strict=True)) for row in rows]

    def add(self, trial: Trial) -> None:
        """Store a finished trial in a transaction of its own; a failed one that is stored already is replaced."""
        spec = trial.spec
        row = (
            spec.key, spec.arm, spec.phase, spec.seed, spec.lr, spec.steps, trial.status, trial.result.get("loss"),
            msgspec.json.encode(spec).decode(), json.dumps(trial.result, allow_nan=False),
            json.dumps(trial.environment, allow_nan=False), trial.session, trial.seconds, trial.finished,
        )  # fmt: skip
        with self._plainly(), self._transaction():
            self._db.execute("DELETE FROM trials WHERE key = ? AND status = 'failed'", (spec.key,))
            self._db.execute(f"INSERT INTO trials VALUES ({', '.join('?' * len(row))})", row)

    def trials(self) -> list[Trial]:
        """All finished trials, in order of finishing."""
        query = (
            "SELECT spec, status, result, environment, session, seconds, finished FROM trials ORDER BY finished, key"
        )
        with self._plainly():
            rows = self._db.execute(query).fetchall()
        return [
            Trial(
                spec=self._decode(spec, TrialSpec), status=status, result=self._decode(result, dict),
                environment=self._decode(environment, dict), session=session, seconds=seconds, finished=finished,
            )
            for spec, status, result, environment, session, seconds, finished in rows
        ]  # fmt: skip

    def _uri(self, readonly: bool) -> str:
        return f"{self.path.absolute().as_uri()}?mode={'ro' if readonly else 'rwc'}"

    def _take_lock(self) -> sqlite3.Connection:
        # SQLite's own lock on a file of its own: released by the system when the process dies, on every platform.
        lock = sqlite3.connect(self.folder / "lock.sqlite", timeout=0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            if "locked" in str(error):
                raise StudyError(
                    f"another process has the study in '{clean(self.folder)}'; wait or name another --study"
                ) from None
            raise
        return lock

    def _check_or_create(self, readonly: bool) -> None:
        application = self._db.execute("PRAGMA application_id").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        empty = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty and version == 0 and not readonly:
            with self._transaction():
                for statement in _TABLES.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")
        elif application != APPLICATION:
            raise StudyError(f"'{clean(self.path)}' is not a softgate study; name another --study folder")
        elif version > SCHEMA:
            raise StudyError(
                f"the study in '{clean(self.folder)}' has schema {version}, this reads {SCHEMA}; update softgate"
            )
        elif self._db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("failed its integrity check")

    def _decode(self, text: str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.MsgspecError as error:
            raise StudyError(
                f"the study file in '{clean(self.folder)}' holds a {kind.__name__} that this softgate cannot read "
                f"({clean(error)}); use the version that made it or name another --study folder"
            ) from error

    def _meta(self, key: str) -> str | None:
        with self._plainly():
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _set_meta(self, key: str, value: str) -> None:
        with self._plainly(), self._transaction():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Errors of the file system and of SQLite as one line that says what to do."""
        where = clean(self.folder)
        try:
            yield
        except sqlite3.OperationalError as error:
            hint = "free some disk space" if "full" in str(error) else "check the folder's permissions and disk"
            raise StudyError(
                f"cannot use the study in '{where}': {clean(error)}; {hint} and repeat the command: nothing is lost"
            ) from error
        except sqlite3.DatabaseError as error:
            raise StudyError(
                f"the study file in '{where}' is corrupt ({clean(error)}); move it away or name another --study folder"
            ) from error
        except OSError as error:
            raise StudyError(
                f"cannot write the study folder '{where}': {clean(error.strerror)}; name another --study"
            ) from error


def _writable(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied")
