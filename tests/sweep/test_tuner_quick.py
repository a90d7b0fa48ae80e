"""A quick tune: selects by prediction, keeps within its time, spends spare time where least is known."""

import pytest

from forerun.sweep.cells import CellState
from support.fake_backend import Economics, FakeBackend, Machine
from support.simulated_tune import Listener, plan_of, tune, workload

NAMES = ("fresh-a", "fresh-b", "copy-c")


def acceptance(name, position):
    return {"fresh-a": 0.9, "fresh-b": float(position < 1), "copy-c": 0.5}.get(name, 0.3)


SERIAL = Economics(d=lambda m, n, b: 0.005 * n, acceptance=acceptance, noise=0.01)


def quick(**fields):
    return plan_of(quick=True, **fields)


def ordinary():
    return [workload(name) for name in NAMES]


def measured(result):
    return {
        cell.cell.workload: cell.cell.candidate.num_speculative_tokens
        for cell in result.cells
        if cell.interval is not None
    }


def test_the_best_prediction_of_each_workload_is_measured_and_the_others_say_why_not(tmp_path):
    result = tune(tmp_path, quick(time_budget=600), FakeBackend(economics=SERIAL), ordinary())
    chosen = measured(result)
    assert set(chosen) == set(NAMES)
    assert chosen["fresh-b"] == 1 and chosen["fresh-a"] >= 5
    for cell in result.cells:
        best = max(c.predicted_ratio for c in result.cells if c.cell.workload == cell.cell.workload)
        if cell.interval is not None:
            assert cell.predicted_ratio == best and cell.num_pairs >= 6
        else:
            assert cell.state is CellState.NOT_RUN
            assert "another candidate promised more" in cell.reason and cell.predicted_ratio is not None


def test_the_control_runs_what_was_picked_most_often(tmp_path):
    workloads = [*ordinary(), workload("fresh-d"), workload("loop", is_control=True)]
    result = tune(tmp_path, quick(time_budget=900), FakeBackend(economics=SERIAL), workloads)
    chosen = measured(result)
    picks = [chosen[name] for name in (*NAMES, "fresh-d")]
    assert picks.count(chosen["loop"]) == max(picks.count(pick) for pick in picks)
    (inflation,) = result.inflation
    assert inflation.candidate.num_speculative_tokens == chosen["loop"] and inflation.num_workloads == 4


@pytest.mark.parametrize("budget", [40, 60, 120, 300])
def test_the_time_budget_is_kept(tmp_path, budget):
    backend = FakeBackend(economics=SERIAL)
    result = tune(tmp_path, quick(time_budget=budget, max_tokens=64), backend, ordinary())
    # At most the pair that had begun.
    assert backend.machine.now <= budget + 5
    if budget >= 60:
        assert len(measured(result)) == 3


def test_texts_get_shorter_when_time_is_short(tmp_path):
    lengths = []
    for budget in (60, 300):
        backend = FakeBackend(economics=SERIAL)
        tune(tmp_path / str(budget), quick(time_budget=budget, max_tokens=64), backend, ordinary())
        lengths.append(max(call.params.max_tokens for call in backend.calls))
    assert 24 <= lengths[0] < lengths[1] == 64


def test_cells_that_time_did_not_reach_are_not_run_and_say_so(tmp_path):
    backend = FakeBackend(economics=SERIAL)
    result = tune(tmp_path, quick(time_budget=25), backend, ordinary())
    last = [cell for cell in result.cells if cell.cell.workload == NAMES[-1]]
    assert all(cell.state is CellState.NOT_RUN and cell.ratio is None for cell in last)
    assert any("time budget of 25 s was used up" in cell.reason for cell in last)
    for cell in result.cells:
        if 0 < cell.num_pairs < 6:
            assert "too few" in cell.reason and "budget" in cell.reason


def test_spare_time_goes_to_the_undecided_cell(tmp_path):
    def shake(call):
        # On one workload the drafter's speed is all over the place.
        if call.prompts[0].startswith("fresh-b") and call.drafting.num_speculative_tokens:
            backend.machine.now += 0.6 * (len(backend.calls) % 3)

    backend = FakeBackend(economics=SERIAL, on_run=shake)
    result = tune(tmp_path, quick(time_budget=200), backend, ordinary())
    pairs = {cell.cell.workload: cell.num_pairs for cell in result.cells if cell.num_pairs}
    assert pairs["fresh-b"] >= 6
    shaky = next(cell for cell in result.cells if cell.num_pairs and cell.cell.workload == "fresh-a")
    decided = shaky.interval.half_width <= 0.05
    assert decided or pairs["fresh-a"] > 6
    assert backend.machine.now <= 205


def test_two_targets_share_the_time(tmp_path):
    machine = Machine()
    backends = {name: FakeBackend(machine, SERIAL) for name in ("t", "u")}
    begun = {}

    def remember(name):
        def on_run(call):
            begun.setdefault(name, machine.now)

        return on_run

    for name, backend in backends.items():
        backend.on_run = remember(name)
    result = tune(tmp_path, quick(targets=["t", "u"], time_budget=240, max_half_width=0.0001), backends, ordinary())
    assert begun["t"] == 0 and begun["u"] == pytest.approx(120, abs=6)
    assert machine.now <= 245
    for name in ("t", "u"):
        assert sum(cell.interval is not None for cell in result.cells if cell.cell.target == name) == 3


def two_families(better):
    """Two drafters; the second is ``better`` times as right."""
    drafters = [{"method": "draft_model", "artifact": name} for name in ("small", "large")]
    return quick(drafters=drafters, n=[3], **better)


def test_a_close_second_family_is_measured_when_time_allows(tmp_path):
    # Both drafters are the same here, so the second is as close as can be.
    result = tune(tmp_path, two_families({"time_budget": 600}), FakeBackend(economics=SERIAL), ordinary())
    assert {cell.state for cell in result.cells} == {CellState.MEASURED}
    assert all(cell.num_pairs >= 6 for cell in result.cells)


def test_runners_up_wait_until_every_pick_has_its_pairs(tmp_path):
    listener = Listener()
    backend = FakeBackend(economics=SERIAL)
    result = tune(tmp_path, two_families({"time_budget": 60}), backend, ordinary(), progress=listener)
    picks, rivals = result.cells[::2], result.cells[1::2]
    assert all(cell.num_pairs >= 6 for cell in picks)
    waiting = [cell for cell in rivals if cell.num_pairs == 0]
    assert waiting and all("close to the best by prediction" in cell.reason for cell in waiting)
    assert all(cell.num_pairs == 0 or cell.num_pairs >= 6 for cell in rivals)
    assert backend.machine.now <= 65


def test_without_a_budget_a_quick_tune_still_ends(tmp_path):
    result = tune(tmp_path, quick(n=[3]), FakeBackend(economics=SERIAL), ordinary())
    assert {cell.state for cell in result.cells} == {CellState.MEASURED}


def test_a_full_tune_with_a_budget_gives_every_cell_its_least_pairs_first(tmp_path):
    backend = FakeBackend(economics=SERIAL)
    result = tune(tmp_path, plan_of(n=[1, 3], time_budget=200, max_half_width=0.0001), backend, ordinary())
    assert all(cell.num_pairs >= 6 for cell in result.cells)
    assert max(cell.num_pairs for cell in result.cells) - min(cell.num_pairs for cell in result.cells) <= 1
    assert backend.machine.now <= 205
