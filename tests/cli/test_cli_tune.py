"""``forerun tune``: whole runs of a tiny model, what they leave on disk, and how they go on after an interruption."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forerun.sweep.load_guard import LoadLimits
from forerun.sweep.measurements import LoadReading
from forerun.sweep.trials import Run as StoredRun
from support.command import Outcome, Run, TinyModels, finish, listing, refused, start


def plan(tiny: TinyModels, out: Path, *words: object) -> list[object]:
    """Two workloads of few prompts, suffix alone, short answers, and no more pairs than an interval needs."""
    file = out.parent / f"{out.name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("max_pairs = 6\n")
    workloads = ("--workload", "code", "--workload", "repeat", "--method", "suffix", "-n", 3)
    sizes = ("--max-tokens", 8, "--prompts-per-workload", 4, "--dtype", "float32", "--device", "cpu")
    return ["tune", "--plan", file, "--model", tiny.fluent, "--out", out, *workloads, *sizes, *words]


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other processes do while tests run must not decide which pairs count."""

    def never(_: LoadLimits, *readings: LoadReading) -> str:
        return ""

    monkeypatch.setattr(LoadLimits, "spoiled_by", never)


def rows(out: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(out / "trials.sqlite")) as connection:
        return connection.execute(query).fetchall()


def run_ids(out: Path) -> list[str]:
    return [id for (id,) in rows(out, "SELECT run_id FROM runs ORDER BY rowid")]


def states(out: Path) -> dict[str, str]:
    """State of each cell of the newest run, by workload and method."""
    found = rows(out, f"SELECT cell, state FROM cells WHERE run_id = '{run_ids(out)[-1]}'")
    cells = [(json.loads(cell), state) for cell, state in found]
    return {f"{cell['workload']} {cell['candidate']['method']}": state for cell, state in cells}


def pair_indices(out: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for cell, index in rows(out, "SELECT cell, pair FROM pairs ORDER BY cell, pair"):
        found.setdefault(cell, []).append(index)
    return found


def assert_is_whole(out: Path, outcome: Outcome) -> None:
    """Everything that a finished tune leaves, and nothing else."""
    assert outcome.code == 0, outcome.err
    assert {path.name for path in out.iterdir()} == {"report.html", "policy.json", "trials.sqlite", "runs"}
    assert "</html>" in (out / "report.html").read_text(encoding="utf-8")
    assert json.loads((out / "policy.json").read_text(encoding="utf-8"))
    for name in ("report.html", "policy.json", "trials.sqlite"):
        assert str(out / name) in outcome.out
        assert (out / name).stat().st_mode & 0o044 == 0o044
    for row in rows(out, "SELECT run_id, raw FROM pairs"):
        file = out / "runs" / row[0] / row[1]
        assert not file.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
        assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {path.name for path in (out / "runs").iterdir()} == set(run_ids(out))
    assert all(ended for (ended,) in rows(out, "SELECT ended_at FROM runs"))


def test_a_full_tune_and_the_same_command_again(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    first = forerun(*plan(tiny, out))
    assert_is_whole(out, first)
    assert set(states(out)) == {"code suffix", "repeat suffix"}
    assert set(states(out).values()) <= {"measured", "tie"}
    assert "code" in first.out and "inflation" in first.out
    again = forerun(*plan(tiny, out))
    assert_is_whole(out, again)
    assert len(set(run_ids(out))) == 2


def test_quick(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert_is_whole(out, forerun(*plan(tiny, out, "--quick", "--time-budget", 20)))
    assert set(states(out)) == {"code suffix", "repeat suffix"}


def test_a_run_that_was_out_of_time_is_gone_on_with(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    out = tmp_path / "out"
    short = forerun(*plan(tiny, out, "--time-budget", 0.0005))
    assert short.code == 0, short.err
    assert "The same command goes on with it." in " ".join(short.out.split()), short.out
    assert "comparisons" not in short.out
    assert rows(out, "SELECT ended_at FROM runs") == [(None,)]
    (run_id,) = run_ids(out)
    longer = forerun(*plan(tiny, out, "--time-budget", 100))
    assert f"resuming run {run_id}" in longer.err and "out of time" not in longer.out
    assert run_ids(out) == [run_id]
    assert_is_whole(out, longer)


def interrupted_after(num_pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while a pair is being put on disk."""
    record_pair = StoredRun.record_pair
    calls: list[str] = []

    def record(self: StoredRun, *arguments: Any) -> None:
        calls.append(self.run_id)
        if len(calls) > num_pairs:
            raise KeyboardInterrupt
        record_pair(self, *arguments)

    monkeypatch.setattr(StoredRun, "record_pair", record)


def test_ctrl_c_keeps_what_was_measured_and_the_same_command_resumes(
    forerun: Run, tiny: TinyModels, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(5, patch)
        stopped = forerun(*plan(tiny, out))
    assert stopped.code == 130
    (run_id,) = run_ids(out)
    assert f"run {run_id} measured is kept" in stopped.err and "interrupted" in stopped.err
    kept = rows(out, "SELECT cell, pair, body FROM pairs ORDER BY cell, pair")
    assert len(kept) == 5
    assert not (out / "report.html").exists()
    resumed = forerun(*plan(tiny, out))
    assert f"resuming run {run_id}" in resumed.err
    assert_is_whole(out, resumed)
    assert run_ids(out) == [run_id]
    assert set(kept) <= set(rows(out, "SELECT cell, pair, body FROM pairs"))
    assert all(indices == list(range(len(indices))) for indices in pair_indices(out).values())


def test_another_plan_is_another_run(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(1, patch)
        assert forerun(*plan(tiny, out)).code == 130
        assert forerun(*plan(tiny, out, "--seed", 4)).code == 130
    assert len(set(run_ids(out))) == 2


def test_a_signal_in_the_middle_of_a_real_process(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(*plan(tiny, out))
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("measuring"):
            break
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.code == 130 and "the same command resumes it" in stopped.err
    (run_id,) = run_ids(out)
    resumed = forerun(*plan(tiny, out))
    assert_is_whole(out, resumed)
    assert run_ids(out) == [run_id]


def test_ones_own_prompts_another_temperature_two_at_a_time(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    out, prompts = tmp_path / "out", tmp_path / "mine.txt"
    prompts.write_text("\n\n".join(f"paragraph {number} of my own traffic" for number in range(4)))
    file = tmp_path / "plan.toml"
    file.write_text("max_pairs = 6\n")
    words = ("--prompts", prompts, "--method", "ngram", "-n", 2, "--max-tokens", 6, "--prompts-per-workload", 4)
    settings = ("--temperature", 0.8, "--concurrency", 2, "--seed", 3, "--dtype", "float32")
    assert_is_whole(out, forerun("tune", "--plan", file, "--model", tiny.fluent, "--out", out, *words, *settings))
    cells = [json.loads(cell) for (cell,) in rows(out, "SELECT cell FROM cells")]
    assert {(cell["temperature"], cell["concurrency"]) for cell in cells} == {(0.8, 2)}
    assert "repeat" in {cell["workload"] for cell in cells}
    (raw,) = rows(out, "SELECT run_id, raw FROM pairs LIMIT 1")
    file = out / "runs" / raw[0] / raw[1]
    arms = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(arms) == 4 and {arm["seed"] for arm in arms} == {3}
    by_prompt: dict[str, set[tuple[int, ...]]] = {}
    for arm in arms:
        by_prompt.setdefault(arm["prompt_id"], set()).add(tuple(arm["token_ids"]))
    assert all(len(texts) == 1 for texts in by_prompt.values())


def test_two_models_and_a_draft_model_from_a_plan(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "plan.toml"
    keys = ('workloads = ["code"]', 'methods = ["draft_model"]', "n = [2]", "max_tokens = 99", "max_pairs = 6")
    file.write_text("\n".join(keys))
    models = ("--model", tiny.fluent, "--model", tiny.fluent_draft, "--draft-model", tiny.fluent_draft)
    words = ("--plan", file, "--max-tokens", 6, "--prompts-per-workload", 2, "--dtype", "float32")
    assert_is_whole(out, forerun("tune", *models, *words, "--out", out))
    cells = [json.loads(cell) for (cell,) in rows(out, "SELECT cell FROM cells")]
    assert {cell["target"] for cell in cells} == {tiny.fluent, tiny.fluent_draft}
    assert {cell["candidate"]["drafter"] for cell in cells} == {tiny.fluent_draft}
    (body,) = rows(out, "SELECT plan FROM runs")[0]
    assert json.loads(body)["max_tokens"] == 6


def test_a_full_disk_at_the_report_loses_no_pair(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        replace = os.replace

        def full(source: Any, target: Any) -> None:
            if str(target).endswith("report.html"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            replace(source, target)

        patch.setattr(os, "replace", full)
        stopped = forerun(*plan(tiny, out))
    assert stopped.code == 2
    assert "report.html; found No space left" in stopped.err.splitlines()[-1]
    assert {path.name for path in out.iterdir()} == {"trials.sqlite", "runs"}
    pairs = rows(out, "SELECT * FROM pairs")
    assert_is_whole(out, forerun(*plan(tiny, out)))
    assert rows(out, "SELECT * FROM pairs") == pairs
    assert len(run_ids(out)) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 kB: a trial store alone fills it."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.system(f"mount -t tmpfs -o size=40k tmpfs '{place}' 2>/dev/null") != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        yield place
    finally:
        assert os.system(f"umount '{place}'") == 0


def test_a_disk_too_small_for_the_store(forerun: Run, tiny: TinyModels, small_disk: Path) -> None:
    out = small_disk / "out"
    assert "found a full disk; free some space" in refused(forerun(*plan(tiny, out)))
    assert listing(small_disk) <= {"out.toml", "out", "out/trials.sqlite"}
    assert os.system(f"mount -o remount,size=64m '{small_disk}'") == 0
    assert_is_whole(out, forerun(*plan(tiny, out)))
