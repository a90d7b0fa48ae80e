"""Trials in SQLite: each is safe the moment it ends, and the same plan goes on where it stopped."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from forerun.errors import ForerunError
from forerun.sweep import serialise
from forerun.sweep.cells import Cell
from forerun.sweep.files import placed_once
from forerun.sweep.measurements import PairResult
from forerun.sweep.plan import Plan
from forerun.sweep.results import CellResult, TuneResult

APPLICATION_ID: Final = 0x464F5245  # "FORE"
SCHEMA_VERSION: Final = 1

_SCHEMA: Final = """
CREATE TABLE runs (run_id TEXT PRIMARY KEY, plan_hash TEXT NOT NULL, plan TEXT NOT NULL, started_at TEXT NOT NULL,
                   ended_at TEXT, result TEXT);
CREATE TABLE pairs (run_id TEXT NOT NULL REFERENCES runs, cell TEXT NOT NULL, pair INTEGER NOT NULL,
                    is_spoiled INTEGER NOT NULL, ratio REAL NOT NULL, raw TEXT NOT NULL, body TEXT NOT NULL,
                    PRIMARY KEY (run_id, cell, pair));
CREATE TABLE cells (run_id TEXT NOT NULL REFERENCES runs, cell TEXT NOT NULL, state TEXT NOT NULL,
                    body TEXT NOT NULL, PRIMARY KEY (run_id, cell));
CREATE TABLE notes (run_id TEXT NOT NULL REFERENCES runs, name TEXT NOT NULL, body TEXT NOT NULL,
                    PRIMARY KEY (run_id, name));
"""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in the store. ``ended_at`` is empty while it may be resumed."""

    run_id: str
    plan_hash: str
    plan: str
    started_at: str
    ended_at: str


class TrialStore:
    """The file that holds every run. Raises ForerunError for a file that is not one, and for a full disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._refusals():
            if _check(path):
                _create(path)
            self._connection = _connect(path)

    def close(self) -> None:
        """Gives the file back; the write-ahead log is folded in."""
        self._connection.close()

    def __enter__(self) -> TrialStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def runs(self) -> list[RunRow]:
        """All runs, oldest first."""
        with self._refusals():
            rows = self._connection.execute(
                "SELECT run_id, plan_hash, plan, started_at, COALESCE(ended_at, '') FROM runs ORDER BY rowid"
            ).fetchall()
        return [RunRow(*row) for row in rows]

    def results(self) -> list[TuneResult]:
        """The results of all runs that ended, oldest first."""
        with self._refusals():
            rows = self._connection.execute(
                "SELECT result FROM runs WHERE result IS NOT NULL ORDER BY rowid"
            ).fetchall()
        return [serialise.from_json(TuneResult, body) for (body,) in rows]

    def open_run(self, plan: Plan, basis: str = "") -> Run:
        """The unfinished run of the same plan, else a new one with an id of its own.

        ``basis`` is what the plan doesn't say but a run must keep to: models, prompts, arithmetic, versions. A run that
        was begun on another basis is never resumed, since its pairs could not be told from the new ones.
        """
        identity = plan.hash if not basis else hashlib.sha256(f"{plan.hash} {basis}".encode()).hexdigest()[:16]
        for row in reversed(self.runs()):
            if row.plan_hash == identity and not row.ended_at:
                return Run(self, row.run_id, is_resumed=True)
        run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO runs (run_id, plan_hash, plan, started_at) VALUES (?, ?, ?, ?)",
                (run_id, identity, plan.model_dump_json(), _now()),
            )
        return Run(self, run_id, is_resumed=False)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; on disk when the block ends."""
        with self._refusals():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                found, remedy = "a full disk", "free some space, then run the same command to resume"
            elif "locked" in str(error):
                found, remedy = "a store in use by another process", "wait for it, or choose another --out"
            else:
                found, remedy = str(error), "check the path, its permissions and the free space"
            raise ForerunError(f"to use the trial store {self.path}", found, remedy) from error
        except sqlite3.DatabaseError as error:
            raise ForerunError(f"a forerun trial store at {self.path}", str(error), _CHOOSE_ANOTHER) from error


class Run:
    """One run of a plan: what is finished, and where the next trial goes."""

    def __init__(self, store: TrialStore, run_id: str, *, is_resumed: bool) -> None:
        self.store = store
        self.run_id = run_id
        self.is_resumed = is_resumed

    def record_pair(self, pair: PairResult, raw: str = "") -> None:
        """A finished trial, safe when this returns. ``raw`` names its file in the run directory."""
        row = (self.run_id, _key(pair.cell), pair.index, pair.is_spoiled, pair.ratio, raw, serialise.to_json(pair))
        with self.store.transaction() as connection:
            connection.execute("INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def pairs(self, cell: Cell) -> list[PairResult]:
        """The pairs of a cell so far, in order: a cell that was cut short goes on after them."""
        rows = self._all("SELECT body FROM pairs WHERE run_id = ? AND cell = ? ORDER BY pair", _key(cell))
        return [serialise.from_json(PairResult, body) for body in rows]

    def raw_file(self, pair: PairResult) -> str:
        """The name of a recorded pair's file in the run directory."""
        query = "SELECT raw FROM pairs WHERE run_id = ? AND cell = ? AND pair = ?"
        return self._all(query, _key(pair.cell), pair.index)[0]

    def record_cell(self, result: CellResult) -> None:
        """A finished cell, once per run."""
        row = (self.run_id, _key(result.cell), result.state.value, serialise.to_json(result))
        with self.store.transaction() as connection:
            connection.execute("INSERT INTO cells VALUES (?, ?, ?, ?)", row)

    def finished_cells(self) -> dict[Cell, CellResult]:
        """Cells that need no more trials."""
        found = [serialise.from_json(CellResult, body) for body in self._all("SELECT body FROM cells WHERE run_id = ?")]
        return {result.cell: result for result in found}

    def record_note(self, name: str, body: str) -> None:
        """Something else worth resuming from (costs, recorded texts), as JSON under a name; replaces its last value."""
        with self.store.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (self.run_id, name, body))

    def note(self, name: str) -> str | None:
        """The note of that name, if there is one."""
        found = self._all("SELECT body FROM notes WHERE run_id = ? AND name = ?", name)
        return found[0] if found else None

    def finish(self, result: TuneResult) -> None:
        """The run is over: its plan, run again, gets a new id."""
        with self.store.transaction() as connection:
            connection.execute(
                "UPDATE runs SET ended_at = ?, result = ? WHERE run_id = ?",
                (_now(), serialise.to_json(result), self.run_id),
            )

    def _all(self, query: str, *arguments: str | int) -> list[str]:
        with self.store.transaction() as connection:
            return [body for (body,) in connection.execute(query, (self.run_id, *arguments))]


_CHOOSE_ANOTHER: Final = "choose another --out or move the file away"


def _check(path: Path) -> bool:
    """Whether a store must be made at ``path``. Looks without writing; raises ForerunError for a foreign file."""
    if not path.parent.is_dir():
        raise ForerunError(f"a directory at {path.parent}", "none", "make it, or choose another --out")
    if not path.exists() or path.stat().st_size == 0:
        return True
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (health,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    finally:
        connection.close()
    if application != APPLICATION_ID:
        raise ForerunError(f"a forerun trial store at {path}", "a SQLite file of another program", _CHOOSE_ANOTHER)
    if version != SCHEMA_VERSION:
        raise ForerunError(f"version {SCHEMA_VERSION} of the trial store {path}", f"version {version}", _CHOOSE_ANOTHER)
    if health != "ok":
        raise ForerunError(f"an undamaged trial store at {path}", str(health), _CHOOSE_ANOTHER)
    return False


def _create(path: Path) -> None:
    """An empty store, whole or not at all: half of one would be taken for another program's file."""
    if path.exists():
        path.unlink()
    # Two processes may begin at once; the second uses the first one's.
    with contextlib.suppress(FileExistsError), placed_once(path) as aside:
        connection = sqlite3.connect(aside)
        try:
            identity = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
            connection.executescript(f"BEGIN; {_SCHEMA} {identity} COMMIT;")
        finally:
            connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    # Every statement is its own transaction unless a block opens one.
    connection = sqlite3.connect(path, timeout=10.0, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _key(cell: Cell) -> str:
    return serialise.to_json(cell)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
