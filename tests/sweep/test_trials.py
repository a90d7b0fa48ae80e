"""The store: safe per trial, resumable, and it refuses what is not its own."""

import os
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from forerun.conditions import Conditions
from forerun.errors import ForerunError
from forerun.sweep.cells import Candidate, Cell, CellState, Setting
from forerun.sweep.files import in_use
from forerun.sweep.measurements import Arm, LoadReading, PairResult, PromptOutcome
from forerun.sweep.plan import Plan
from forerun.sweep.results import CellResult, TuneResult
from forerun.sweep.trials import APPLICATION_ID, TrialStore
from forerun.types import RoundCounts, Timings

CELL = Cell.of(Setting("smollm2", "code", 0.8, 2), Candidate("suffix", 3, True, (("alpha", 1.5), ("max_depth", 32))))
OTHER = Cell.of(Setting("smollm2", "code", 0.8, 2), Candidate("ngram", 3))


def arm(seconds):
    outcome = PromptOutcome("p", seconds, (0.1, seconds), RoundCounts(1, 0, 3, 1, 1), "hash", has_passed=True)
    return Arm((outcome,), seconds, Timings(), 1, LoadReading(seconds, 0.1, 0.0, 0, 2))


def pair(index, cell=CELL):
    return PairResult(cell, index, arm(1.0), arm(1.5), is_candidate_first=index % 2 == 0)


def result(run_id, plan):
    return TuneResult(
        run_id, plan.hash, plan.model_dump_json(), True, Conditions(), (), (), (), (), (), (), (), (), ("repeat",), 0
    )


def test_the_same_plan_resumes_with_everything_that_finished(tmp_path):
    plan = Plan()
    with TrialStore(tmp_path / "trials.db") as store:
        run = store.open_run(plan)
        assert not run.is_resumed
        for index in (1, 0):
            run.record_pair(pair(index), raw=f"suffix-{index}.jsonl")
        run.record_pair(pair(0, OTHER))
        done = CellResult(OTHER, CellState.REFUSED, "too long")
        run.record_cell(done)
        run.record_note("costs", "[1]")
        run.record_note("costs", "[2]")
    with TrialStore(tmp_path / "trials.db") as store:
        again = store.open_run(plan)
        assert (again.run_id, again.is_resumed) == (run.run_id, True)
        assert again.pairs(CELL) == [pair(0), pair(1)]
        assert again.finished_cells() == {OTHER: done}
        assert (again.note("costs"), again.note("texts")) == ("[2]", None)
        assert store.open_run(Plan(max_tokens=64)).run_id != run.run_id
        on_this_basis = store.open_run(plan, "float32")
        assert on_this_basis.run_id != run.run_id
        assert store.open_run(plan, "float32").run_id == on_this_basis.run_id
        assert store.open_run(plan, "bfloat16").run_id != on_this_basis.run_id


def test_a_rerun_of_a_finished_plan_gets_a_new_id(tmp_path):
    plan = Plan()
    with TrialStore(tmp_path / "trials.db") as store:
        first = store.open_run(plan)
        first.finish(result(first.run_id, plan))
        second = store.open_run(plan)
        assert second.run_id != first.run_id
        assert not second.is_resumed
        assert second.pairs(CELL) == []
        assert [row.run_id for row in store.runs()] == [first.run_id, second.run_id]
        assert bool(store.runs()[0].ended_at) and not store.runs()[1].ended_at
        assert store.results() == [result(first.run_id, plan)]


def test_a_pair_is_recorded_once(tmp_path):
    with TrialStore(tmp_path / "trials.db") as store:
        run = store.open_run(Plan())
        run.record_pair(pair(0))
        with pytest.raises(ForerunError, match="UNIQUE"):
            run.record_pair(pair(0))
        assert run.pairs(CELL) == [pair(0)]


def test_a_killed_process_loses_no_finished_pair(tmp_path):
    path = tmp_path / "trials.db"
    program = textwrap.dedent(
        f"""
        import os, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from pathlib import Path
        from test_trials import *
        store = TrialStore(Path({str(path)!r}))
        run = store.open_run(Plan())
        run.record_pair(pair(0))
        store._connection.execute("BEGIN IMMEDIATE")
        store._connection.execute("INSERT INTO notes VALUES (?, 'half', '')", (run.run_id,))
        os._exit(9)
        """
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    with TrialStore(path) as store:
        run = store.open_run(Plan())
        assert run.is_resumed
        assert run.pairs(CELL) == [pair(0)]
        assert run.note("half") is None


def test_an_interrupted_transaction_leaves_nothing(tmp_path):
    with TrialStore(tmp_path / "trials.db") as store:
        run = store.open_run(Plan())

        def interrupted():
            with store.transaction() as connection:
                connection.execute("INSERT INTO notes VALUES (?, 'half', '')", (run.run_id,))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert run.note("half") is None
        run.record_note("whole", "1")
        assert run.note("whole") == "1"


def test_a_foreign_sqlite_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(ForerunError, match="another program"):
        TrialStore(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["other.db"]


def test_unreadable_damaged_and_newer_files_are_refused(tmp_path):
    text = tmp_path / "text.db"
    text.write_text("this is no database, only some words that go on for a while " * 20)
    with pytest.raises(ForerunError, match="not a database"):
        TrialStore(text)
    newer = tmp_path / "newer.db"
    TrialStore(newer).close()
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ForerunError, match="found version 99"):
        TrialStore(newer)
    with pytest.raises(ForerunError, match="directory"):
        TrialStore(tmp_path / "nowhere" / "trials.db")
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(ForerunError, match="trial store"):
        TrialStore(tmp_path / "folder.db")


def test_a_truncated_store_is_refused(tmp_path):
    path = tmp_path / "trials.db"
    with TrialStore(path) as store:
        run = store.open_run(Plan())
        for index in range(30):
            run.record_pair(pair(index))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ForerunError, match=str(path)):
        TrialStore(path)


def test_a_full_disk_is_one_line_and_loses_only_the_running_trial(tmp_path):
    with TrialStore(tmp_path / "trials.db") as store:
        run = store.open_run(Plan())
        run.record_pair(pair(0))
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(ForerunError, match="full disk; free some space"):
            run.record_note("big", "x" * 100_000)
        store._connection.execute("PRAGMA max_page_count = 1000000")
        assert run.pairs(CELL) == [pair(0)]
        run.record_pair(pair(1))


def test_an_empty_file_becomes_a_store(tmp_path):
    path = tmp_path / "trials.db"
    path.touch()
    TrialStore(path).close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    connection.close()


@pytest.mark.parametrize("name", ["o#x", "o?y", "o%41", "o p"])
def test_a_store_is_found_again_whatever_its_path(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    with TrialStore(directory / "trials.sqlite") as store:
        run = store.open_run(Plan())
    with TrialStore(directory / "trials.sqlite") as store:
        assert store.open_run(Plan()).run_id == run.run_id


def test_a_directory_serves_one_run_at_a_time(tmp_path):
    with in_use(tmp_path), pytest.raises(ForerunError, match="another run that uses it"), in_use(tmp_path):
        pass
    with in_use(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
