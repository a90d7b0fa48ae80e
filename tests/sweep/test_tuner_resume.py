"""Crashes and reruns: whatever call a tune is cut at, the same plan ends as if nothing had happened."""

from dataclasses import replace

import pytest

from forerun.sweep.trials import TrialStore
from support.fake_backend import Economics, FakeBackend
from support.simulated_tune import plan_of, tune, workload

# Calls that resuming doesn't repeat may not change what comes after: noise depends on what is run alone.
ECONOMICS = Economics(d=lambda m, n, b: 0.004 * n, acceptance=lambda w, i: 0.8 if w == "fresh" else 0.4, noise=0.02)
PLAN = plan_of(n=[1, 3], max_tokens=20, max_pairs=7, temperatures=[0.5])


class CrashError(Exception):
    """The power went."""


def crash_at(number):
    backend = FakeBackend(economics=ECONOMICS)

    def on_run(call):
        if len(backend.calls) == number:
            raise CrashError

    backend.on_run = on_run
    return backend


def workloads():
    return [workload("fresh"), workload("other")]


def comparable(result):
    """All but the run's name and when it was."""

    def timeless(conditions):
        return None if conditions is None else replace(conditions, started_at="", ended_at="", load=0.0)

    cells = tuple(replace(cell, conditions=timeless(cell.conditions)) for cell in result.cells)
    return rounded(replace(result, run_id="", conditions=timeless(result.conditions), cells=cells))


def rounded(value):
    """Clock readings differ in their last bits with the time of day."""
    text = repr(value)
    import re

    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.6g}", text)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    backend = FakeBackend(economics=ECONOMICS)
    return tune(tmp_path_factory.mktemp("whole"), PLAN, backend, workloads()), len(backend.calls)


def cut_and_resume(path, undisturbed, number):
    with pytest.raises(CrashError):
        tune(path, PLAN, crash_at(number), workloads())
    again = FakeBackend(economics=ECONOMICS)
    result = tune(path, PLAN, again, workloads())
    assert comparable(result) == comparable(undisturbed[0])
    with TrialStore(path / "trials.sqlite") as store:
        assert [row.run_id for row in store.runs()] == [result.run_id]
    return again


def test_cut_at_a_sample_of_calls(tmp_path, undisturbed):
    _, num_calls = undisturbed
    for number in range(1, num_calls + 1, 7):
        cut_and_resume(tmp_path / str(number), undisturbed, number)


@pytest.mark.slow
def test_cut_at_every_call(tmp_path, undisturbed):
    _, num_calls = undisturbed
    for number in range(1, num_calls + 1):
        cut_and_resume(tmp_path / str(number), undisturbed, number)


def test_resuming_repeats_neither_preparation_nor_finished_pairs(tmp_path, undisturbed):
    _, num_calls = undisturbed
    again = cut_and_resume(tmp_path, undisturbed, num_calls)
    # The cell's warm-up and its last pair, four runs in all.
    assert len(again.calls) == 4


def test_a_rerun_after_the_end_has_a_new_id_and_leaves_the_old_files_alone(tmp_path):
    first = tune(tmp_path, PLAN, FakeBackend(economics=ECONOMICS), workloads())
    before = {file: file.read_bytes() for file in (tmp_path / "runs" / first.run_id).iterdir()}
    second = tune(tmp_path, PLAN, FakeBackend(economics=ECONOMICS), workloads())
    assert second.run_id != first.run_id
    assert comparable(second) == comparable(first)
    assert {file: file.read_bytes() for file in before} == before
    assert len(list((tmp_path / "runs" / second.run_id).iterdir())) == len(before)


def test_more_time_may_finish_what_a_crash_left_without(tmp_path):
    """Cells that had no time are not final until the run has ended."""
    plan = plan_of(targets=["t", "u"], n=[3], max_tokens=20, time_budget=3)
    machine_of_t = FakeBackend(economics=ECONOMICS)
    broken = FakeBackend(machine_of_t.machine, ECONOMICS)

    def crash(call):
        raise CrashError

    broken.on_run = crash
    with pytest.raises(CrashError):
        tune(tmp_path, plan, {"t": machine_of_t, "u": broken}, workloads())
    longer = plan.model_copy(update={"time_budget": 300.0})
    fresh = FakeBackend(economics=ECONOMICS)
    backends = {"t": fresh, "u": FakeBackend(fresh.machine, ECONOMICS)}
    result = tune(tmp_path, longer, backends, workloads())
    assert all(cell.interval is not None for cell in result.cells)
