"""C, D, predictions and break-even against hand-computed values, measured with a fake clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.engine.costs.interpolation import Line, never_falling
from forerun.sweep.cells import Candidate
from forerun.sweep.cost_measuring import measure_draft, measure_slices, measure_start, measure_target, rows_needed
from forerun.sweep.cost_model import (
    CostModel,
    DraftCost,
    TargetCost,
    break_even_acceptance,
    expected_tokens_per_round,
)
from forerun.sweep.results import CostPoint, DraftCostPoint, DraftCostTable, TargetCostTable
from forerun.types import PositionCounts, RoundCounts

POINTS = (
    CostPoint(1, 1, 100, 10.0),
    CostPoint(4, 1, 100, 13.0),
    CostPoint(8, 1, 100, 21.0),
    CostPoint(1, 1, 300, 12.0),
    CostPoint(4, 1, 300, 17.0),
    CostPoint(8, 1, 300, 29.0),
    CostPoint(4, 4, 100, 16.0),
    CostPoint(16, 4, 100, 40.0),
    CostPoint(32, 4, 100, 72.0),
)
DRAFTS = (DraftCostPoint(1, 1, 1.0), DraftCostPoint(3, 1, 3.0), DraftCostPoint(7, 1, 7.0), DraftCostPoint(3, 4, 6.0))


def model(overhead=0.5):
    target = TargetCost(TargetCostTable("smollm2", POINTS, overhead))
    return CostModel(target, DraftCost(DraftCostTable("smollm2", Candidate("draft_model", 1), DRAFTS)))


def test_measured_points_come_back_and_between_them_is_linear():
    cost = model().target
    for point in POINTS:
        found = cost.at(point.rows, point.sequences, point.context)
        assert (found.seconds, found.is_outside) == (point.seconds, False)
    assert cost.at(6, 1, 100).seconds == 17.0
    assert cost.at(4, 1, 200).seconds == 15.0
    assert cost.at(6, 1, 200).seconds == (17.0 + 23.0) / 2
    assert not cost.at(6, 1, 200).is_outside


def test_outside_of_the_grid_the_edge_answers_and_says_so():
    cost = model().target
    assert (cost.at(9, 1, 100).seconds, cost.at(9, 1, 100).is_outside) == (21.0, True)
    assert (cost.at(1, 1, 50).seconds, cost.at(1, 1, 50).is_outside) == (10.0, True)
    assert (cost.at(32, 9, 100).seconds, cost.at(32, 9, 100).is_outside) == (72.0, True)
    assert model().draft.at(8, 1).is_outside
    assert model().draft.at(3, 4).seconds == 6.0
    assert not model().draft.at(3, 4).is_outside


def test_a_noisy_fall_is_levelled():
    assert never_falling([1.0, 3.0, 2.0, 4.0]) == [1.0, 2.5, 2.5, 4.0]
    assert never_falling([3.0, 2.0, 1.0]) == [2.0, 2.0, 2.0]
    assert Line.through([(2, 3.0), (1, 1.0), (3, 2.0)]).at(2.5).seconds == 2.5


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=12), st.floats(0, 20), st.floats(0, 20))
def test_lines_never_fall_and_stay_within_what_was_measured(values, a, b):
    line = Line.through(list(enumerate(values)))
    low, high = sorted((a, b))
    assert line.at(low).seconds <= line.at(high).seconds + 1e-9
    assert min(values) - 1e-9 <= line.at(a).seconds <= max(values) + 1e-9


def test_a_line_needs_distinct_places():
    with pytest.raises(ValueError, match="distinct"):
        Line.through([(1, 1.0), (1, 2.0)])
    with pytest.raises(ValueError, match="no pass"):
        TargetCost(TargetCostTable("t", (), 0.0))
    with pytest.raises(ValueError, match="no draft"):
        DraftCost(DraftCostTable("t", Candidate("ngram", 1), ()))


def test_break_even_is_the_designs_formula():
    # (C(4, 1, 100) + D(3, 1) + overhead) / C(1, 1, 100) = (13 + 3 + 0.5) / 10
    assert model().break_even_tokens_per_round(3, 1, 100).seconds == pytest.approx(1.65)
    # b = 4: (C(16, 4, 100) + D(3, 4) + 0.5) / C(4, 4, 100) = 46.5 / 16
    assert model().break_even_tokens_per_round(3, 4, 100).seconds == pytest.approx(46.5 / 16)


def test_break_even_acceptance_inverts_the_geometric_sum():
    assert expected_tokens_per_round(0.5, 3) == 1.875
    assert break_even_acceptance(1.875, 3) == pytest.approx(0.5)
    assert break_even_acceptance(1.0, 3) == 0.0
    assert break_even_acceptance(0.8, 3) == 0.0
    assert break_even_acceptance(4.0, 3) == pytest.approx(1.0)
    assert break_even_acceptance(4.01, 3) is None


def counts(lengths_and_accepted):
    total = RoundCounts()
    for length, accepted in lengths_and_accepted:
        positions = tuple(PositionCounts(1, int(accepted >= i), int(accepted >= i + 1)) for i in range(length))
        total += RoundCounts(1, int(length == 0), length, accepted, accepted + 1, positions)
    return total


def test_a_prediction_pays_for_the_rows_that_were_drafted():
    # 4 rounds: two full drafts of 3 (3 and 1 accepted), two without: 4 + 2 + 1 + 1 = 8 tokens.
    found = model().predict(counts([(3, 3), (3, 1), (0, 0), (0, 0)]), 3, 1, 100)
    steps = (2 * (13 + 3 + 0.5) + 2 * (10 + 3 + 0.5)) / 10
    assert found.ratio == pytest.approx(8 / steps)
    assert found.tokens_per_round == 2.0
    assert found.break_even_tokens_per_round == pytest.approx(1.65)
    assert (found.verify_steps, found.draft_steps) == (pytest.approx(1.3), pytest.approx(0.3))
    assert found.break_even_acceptance == pytest.approx(break_even_acceptance(1.65, 3))
    assert not found.is_outside


def test_always_full_drafts_break_even_exactly_at_the_formula():
    # tokens per round / predicted ratio is the break-even, since every round is full.
    found = model().predict(counts([(3, 2), (3, 0), (3, 3)]), 3, 1, 100)
    assert found.tokens_per_round / found.ratio == pytest.approx(found.break_even_tokens_per_round)


def test_batches_are_predicted_by_mean_rows_and_prefill_dilutes():
    some = counts([(3, 3), (3, 1)])
    found = model().predict(some, 3, 4, 100)
    assert found.ratio == pytest.approx(3 / (46.5 / 16))
    # Prefill: 16 seconds are 4 sequence-steps of C(4, 4) = 16 seconds per 4 sequences.
    diluted = model().predict(some, 3, 4, 100, prefill_seconds=16.0)
    assert diluted.ratio == pytest.approx((6 + 4) / (2 * 46.5 / 16 + 4))


def test_what_a_drafter_does_with_a_prompt_weighs_on_its_side_alone():
    some = counts([(3, 3), (3, 1)])
    # 20 seconds are 2 plain steps of 10.
    found = model().predict(some, 3, 1, 100, prefill_seconds=30.0, start_seconds=20.0)
    assert found.ratio == pytest.approx((6 + 3) / (2 * 1.65 + 3 + 2))
    assert DraftCost(DraftCostTable("t", Candidate("ngram", 1), DRAFTS, 0.25)).start_seconds(40) == 10.0


def test_a_prompt_is_read_slice_by_slice():
    slices = tuple(CostPoint(rows, 1, context, rows + context / 10) for rows in (16, 64) for context in (0, 128))
    cost = TargetCost(TargetCostTable("t", POINTS, 0.0, slices, 64))
    assert cost.prefill_seconds(64) == 64.0
    assert cost.prefill_seconds(40) == 40.0
    # Slices of 64, 64 and 22 rows behind 0, 64 and 128 tokens.
    assert cost.prefill_seconds(150) == pytest.approx(64 + (64 + 6.4) + (22 + 12.8))


def test_no_round_no_prediction_and_the_edge_is_told():
    assert model().predict(RoundCounts(), 3, 1, 100) is None
    assert model().predict(counts([(3, 1)]), 3, 1, 1000).is_outside


class FakeMachine:
    """A clock that a pass moves forward by what it costs, plus a slow spell in one turn."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def clock(self):
        return self.now

    def run_pass(self, rows, sequences, context):
        self.calls.append(rows)
        spell = 100.0 if 3 <= len(self.calls) <= 4 else 0.0
        self.now += rows * 2.0 + context * 0.01 + spell

    def run_draft(self, n, sequences):
        self.now += n * sequences


def test_measuring_takes_turns_and_medians_so_that_a_slow_spell_is_outvoted():
    machine = FakeMachine()
    found = measure_target(machine.run_pass, [(1, 1, 100), (4, 1, 100)], num_repeats=3, clock=machine.clock)
    assert found == (CostPoint(1, 1, 100, pytest.approx(3.0)), CostPoint(4, 1, 100, pytest.approx(9.0)))
    assert machine.calls == [1, 4] * 4
    drafts = measure_draft(machine.run_draft, [(3, 2)], num_repeats=3, clock=machine.clock)
    assert drafts == (DraftCostPoint(3, 2, pytest.approx(6.0)),)


def test_slices_and_starts_are_timed_without_what_does_not_belong_to_them():
    machine = FakeMachine()

    def run_slice(rows, context):
        machine.now += rows + context * 0.01

    found = measure_slices(run_slice, [16, 64], [0, 100], clock=machine.clock)
    assert [(point.rows, point.sequences, point.context) for point in found] == [
        (16, 1, 0), (64, 1, 0), (16, 1, 100), (64, 1, 100)
    ]  # fmt: skip
    assert [point.seconds for point in found] == pytest.approx([16, 64, 17, 65])

    def run_start(num_tokens):
        # One draft, whatever the prompt.
        machine.now += 5.0 + 0.5 * num_tokens

    assert measure_start(run_start, 41, clock=machine.clock) == pytest.approx(0.5)
    assert measure_start(run_start, 1, clock=machine.clock) == 0.0


def test_the_grid_holds_plain_steps_and_every_round():
    assert rows_needed([3, 1], [1, 2]) == [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (8, 2)]
