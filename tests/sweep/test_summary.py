"""A cell's figures from its pairs, by hand."""

import pytest

from forerun.sweep.cells import Candidate, Cell, CellState, Setting
from forerun.sweep.cost_model import Prediction
from forerun.sweep.measurements import Arm, LoadReading, PairResult, PromptOutcome
from forerun.sweep.summary import figures, not_measured, summarise
from forerun.types import PositionCounts, RoundCounts, Timings

CELL = Cell.of(Setting("smollm2", "code", 0.0, 1), Candidate("ngram", 3))
QUIET = LoadReading(1.0, 0.0, 0.0, 0, 2)
COUNTS = RoundCounts(2, 1, 3, 1, 3, (PositionCounts(1, 1, 1), PositionCounts(1, 1, 0), PositionCounts(1, 0, 0)))


def arm(seconds, *, prompt="p", peak=10, **more):
    outcome = PromptOutcome(prompt, seconds, (0.5, 0.7, 0.7, seconds), COUNTS, more.pop("text_hash", "h"), **more)
    return Arm((outcome,), seconds, Timings(0.1, 0.2, 0.3, 0.4), peak, QUIET)


def pair(index, seconds, off_seconds, spoiled_by="", **more):
    return PairResult(CELL, index, arm(seconds, **more), arm(off_seconds), index % 2 == 0, spoiled_by)


def test_figures_of_one_side():
    found = figures([arm(1.0, peak=10, has_passed=True), arm(3.0, peak=30, has_passed=False), arm(4.0)])
    assert found.throughput == 12 / 8.0
    assert (found.ttft_p50, found.ttft_p95) == (0.5, 0.5)
    # Gaps: 0.1 and 0.1 of each arm, then 0.3, 2.3 and 3.3.
    assert found.inter_token_p50 == pytest.approx(0.1)
    assert found.inter_token_p95 == pytest.approx(3.3)
    assert (found.pass_rate, found.num_checked) == (0.5, 2)
    assert found.peak_memory == 30
    assert found.timings.draft == pytest.approx(0.3)
    assert (found.tokens_per_round, found.mean_accepted_length, found.coverage) == (1.5, 2.0, 0.5)
    assert found.acceptance_rate == pytest.approx(1 / 3)
    assert found.unconditional_acceptance == [1.0, 0.0, 0.0]
    assert found.conditional_acceptance == [1.0, 0.0, None]
    assert figures([]) is None
    assert figures([arm(1.0)]).pass_rate is None


def test_a_measured_cell():
    prediction = Prediction(1.9, 1.5, 1.2, 0.3, 1.1, 0.05, False)
    pairs = [pair(i, 1.0, ratio) for i, ratio in enumerate((1.5, 1.6, 1.7, 1.8, 1.9, 2.0))]
    found = summarise(CELL, pairs, prediction=prediction)
    assert found.state is CellState.MEASURED
    assert found.ratio == pytest.approx(1.75)
    assert (found.num_pairs, found.num_discarded_pairs) == (6, 0)
    assert (found.share_slower_prompts, found.worst_prompt_ratio) == (0.0, 1.5)
    assert (found.predicted_ratio, found.break_even_acceptance, found.verify_steps) == (1.9, 0.3, 1.1)
    assert found.off_figures.throughput == pytest.approx(24 / 10.5)


def test_slower_prompts_are_counted():
    found = summarise(CELL, [pair(i, 1.0, ratio) for i, ratio in enumerate((0.8, 0.9, 1.2, 1.2, 1.2, 1.2))])
    assert found.state is CellState.TIE
    assert found.share_slower_prompts == pytest.approx(2 / 6)
    assert found.worst_prompt_ratio == pytest.approx(0.8)


def test_spoiled_pairs_are_discarded_whole_whatever_they_measured():
    good = [pair(i, 1.0, 1.5 + i / 100) for i in range(6)]
    spoiled = [pair(6, 1.0, 50.0, "load"), pair(7, 50.0, 1.0, "load")]
    with_spoiled, without = summarise(CELL, [*good, *spoiled]), summarise(CELL, good)
    assert with_spoiled.num_discarded_pairs == 2
    assert with_spoiled.interval == without.interval
    assert with_spoiled.figures == without.figures


def test_too_few_pairs_are_spoiled_by_load_or_just_too_few():
    few = [pair(i, 1.0, 1.5) for i in range(4)]
    assert summarise(CELL, few).state is CellState.NOT_RUN
    assert "too few: 4 pairs" in summarise(CELL, few).reason
    spoiled = summarise(CELL, [*few, pair(4, 1.0, 1.5, "load"), pair(5, 1.0, 1.5, "load")])
    assert spoiled.state is CellState.SPOILED
    assert "2 discarded for machine load" in spoiled.reason
    assert spoiled.figures is not None
    assert summarise(CELL, []).figures is None


def test_looping_outputs_are_left_out_and_counted():
    loops = [pair(i, 1.0, 9.0, is_looping=True) for i in range(5)]
    good = [pair(i + 5, 1.0, 1.5) for i in range(6)]
    found = summarise(CELL, [*loops, *good])
    assert (found.ratio, found.num_pairs, found.num_looping_pairs) == (1.5, 6, 5)
    assert "5 looped" in summarise(CELL, loops).reason


def test_a_changed_text_is_found_even_on_a_busy_machine():
    pairs = [*(pair(i, 1.0, 1.5) for i in range(6)), pair(6, 1.0, 1.5, "load", text_hash="changed")]
    assert summarise(CELL, pairs).differing_prompts == ("p",)
    assert summarise(CELL, pairs).has_lossless_failure


def test_a_cell_that_was_only_predicted():
    found = not_measured(CELL, CellState.NOT_RUN, "not among the best", prediction=Prediction(0.9, 1, 1, 0, 1, 0, True))
    assert (found.predicted_ratio, found.ratio, found.reason) == (0.9, None, "not among the best")
