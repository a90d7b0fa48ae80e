"""Out of time is not finished: the same command goes on, and nothing that was done is done again."""

import pytest

from forerun.sweep.cells import CellState
from forerun.sweep.trials import TrialStore
from support.fake_backend import Economics, FakeBackend
from support.simulated_tune import plan_of, tune, workload

ECONOMICS = Economics(d=lambda m, n, b: 0.005 * n, acceptance=lambda w, i: 0.8, noise=0.01)
NAMES = ("fresh-a", "fresh-b", "fresh-c")


class StopError(Exception):
    """Ctrl-C."""


def workloads():
    return [workload(name) for name in NAMES]


def runs(path):
    with TrialStore(path / "trials.sqlite") as store:
        return store.runs()


def quick(budget):
    return plan_of(quick=True, n=[1, 3], time_budget=budget, max_tokens=24)


def test_a_quick_tune_that_was_out_of_time_goes_on_until_every_pick_has_its_pairs(tmp_path):
    first = tune(tmp_path, quick(12), FakeBackend(economics=ECONOMICS), workloads())
    assert not first.is_finished and runs(tmp_path)[0].ended_at == ""
    num_pairs = first.num_pairs
    for _ in range(20):
        result = tune(tmp_path, quick(12), FakeBackend(economics=ECONOMICS), workloads())
        assert result.run_id == first.run_id and result.num_pairs > num_pairs
        num_pairs = result.num_pairs
        if result.is_finished:
            break
    assert result.is_finished and runs(tmp_path)[0].ended_at
    measured = {cell.cell.workload for cell in result.cells if cell.interval is not None}
    assert measured == set(NAMES)
    assert tune(tmp_path, quick(12), FakeBackend(economics=ECONOMICS), workloads()).run_id != first.run_id


def test_texts_keep_their_length_when_more_time_comes(tmp_path):
    short = FakeBackend(economics=ECONOMICS)
    plan = plan_of(quick=True, n=[3], time_budget=12, max_tokens=64)
    assert not tune(tmp_path, plan, short, workloads()).is_finished
    longer = FakeBackend(economics=ECONOMICS)
    tune(tmp_path, plan.model_copy(update={"time_budget": 3000.0}), longer, workloads())
    lengths = {call.params.max_tokens for call in longer.calls if call.params.max_tokens > 4}
    assert lengths == {24}


def test_workloads_without_a_text_are_recorded_when_the_run_goes_on(tmp_path):
    slow = FakeBackend(economics=ECONOMICS)

    def stall(call):
        # Recording the first workload takes more than half of the time.
        if len(call.prompts) > 1:
            slow.machine.now += 100

    slow.on_run = stall
    first = tune(tmp_path, quick(150), slow, workloads())
    assert first.num_unfinished >= 2
    missing = [cell for cell in first.cells if cell.cell.workload == "fresh-b"]
    assert all("no text was recorded: the time budget of 150 s" in cell.reason for cell in missing)
    again = FakeBackend(economics=ECONOMICS)
    result = tune(tmp_path, quick(600), again, workloads())
    assert result.run_id == first.run_id and result.is_finished
    recorded = [call for call in again.calls if len(call.prompts) > 1 and call.drafting.method == "off"]
    assert {prompt.rsplit("-", 1)[0] for call in recorded for prompt in call.prompts} == {"fresh-b", "fresh-c"}


def test_a_cell_whose_pairs_were_spoiled_has_them_again(tmp_path):
    busy = FakeBackend(economics=ECONOMICS)

    def load(call):
        # Warming up and recording are not judged.
        if len(call.prompts) == 1 and call.params.max_tokens == 24:
            busy.machine.foreign += 100

    busy.on_run = load
    plan = plan_of(n=[3], max_tokens=24, time_budget=16)
    first = tune(tmp_path, plan, busy, [workload("fresh-a")])
    (cell,) = first.cells
    assert cell.state is CellState.SPOILED and 6 <= cell.num_discarded_pairs < 18
    assert not first.is_finished
    result = tune(tmp_path, plan_of(n=[3], max_tokens=24, time_budget=600), FakeBackend(economics=ECONOMICS),
                  [workload("fresh-a")])  # fmt: skip
    assert result.run_id == first.run_id and result.is_finished
    assert result.cells[0].interval is not None


def test_stopping_the_preparation_anywhere_repeats_no_finished_part(tmp_path):
    """Passes, drafts and runs of the preparation, counted over two sessions, are those of one and the part cut."""
    plan = plan_of(quick=True, n=[1, 3], max_tokens=24, methods=["draft_model", "ngram"])

    def counting(stop_at=None):
        backend = FakeBackend(economics=ECONOMICS)
        done = []
        probe = backend.probe
        spend = backend._spend

        def watched(name):
            inner = getattr(probe, name)

            def run(*arguments):
                if stop_at is not None and len(done) == stop_at:
                    raise StopError
                done.append(name)
                return inner(*arguments)

            return run

        for name in ("run_pass", "run_slice", "draft_runner", "start_runner"):
            setattr(probe, name, watched(name))

        def on_run(call):
            if stop_at is not None and len(done) == stop_at:
                raise StopError
            done.append("recording" if len(call.prompts) > 1 else "run")

        backend.on_run, backend._spend = on_run, spend
        return backend, done

    whole, everything = counting()
    expected = tune(tmp_path / "whole", plan, whole, workloads())
    first_pair = max(index for index, name in enumerate(everything) if name == "recording") + 1
    # Inside every kind of part, and behind the last.
    marks = {name: everything.index(name) + 1 for name in ("run", "run_pass", "draft_runner", "recording")}
    for name, stop_at in {**marks, "pairs": first_pair}.items():
        path = tmp_path / name
        cut, before = counting(stop_at)
        with pytest.raises(StopError):
            tune(path, plan, cut, workloads())
        rest, after = counting()
        result = tune(path, plan, rest, workloads())
        assert [cell.predicted_ratio for cell in result.cells] == pytest.approx(
            [cell.predicted_ratio for cell in expected.cells]
        )
        repeated = len(before) + len(after) - len(everything)
        part = {"run": 5, "run_pass": 60, "draft_runner": 2, "recording": 2, "pairs": 0}[name]
        assert 0 <= repeated <= part, name
    assert after.count("run_pass") == after.count("draft_runner") == after.count("recording") == 0
