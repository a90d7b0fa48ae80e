"""Frozen results: hand-computed figures, states that can't contradict themselves, JSON that reads back."""

import dataclasses

import pytest

from forerun.conditions import Conditions
from forerun.errors import ForerunError
from forerun.sweep import serialise
from forerun.sweep.cells import OFF, Candidate, Cell, CellState, Setting
from forerun.sweep.measurements import Arm, LoadReading, PairResult, PromptOutcome
from forerun.sweep.results import CellResult, Interval, TuneResult
from forerun.types import PositionCounts, RoundCounts, Timings

SETTING = Setting("smollm2", "code", 0.0, 1)
NGRAM7 = Candidate("ngram", 7)
CELL = Cell.of(SETTING, NGRAM7)
QUIET = LoadReading(2.0, 0.1, 0.0, 0, 2)


def outcome(prompt_id="p", times=(0.5, 1.0, 1.0, 2.0), seconds=2.0, text_hash="h", **more):
    counts = RoundCounts(2, 0, 6, 1, 3, (PositionCounts(2, 2, 1), PositionCounts(2, 1, 0)))
    return PromptOutcome(prompt_id, seconds, times, counts, text_hash, **more)


def arm(*prompts, seconds=2.0):
    return Arm(prompts, seconds, Timings(0.1, 1.0, 0.1, 0.0), 1000, QUIET)


def pair(ours, theirs, **more):
    return PairResult(CELL, 0, ours, theirs, True, **more)


def test_tokens_of_one_round_share_its_time_so_that_a_rate_is_per_token():
    found = outcome(times=(0.5, 1.0, 1.0, 2.0)).inter_token_times
    assert found == [0.25, 0.25, 1.0]
    assert sum(found) == 2.0 - 0.5
    assert outcome(times=()).inter_token_times == []
    assert outcome(times=()).ttft is None
    assert outcome(times=(0.5,)).inter_token_times == []
    assert outcome().ttft == 0.5


def test_an_arm_counts_tokens_over_wall_time():
    two = arm(outcome("a"), outcome("b"), seconds=4.0)
    assert two.throughput == 8 / 4
    assert two.counts.emitted == 6
    assert two.counts.positions[0] == PositionCounts(4, 4, 2)


def test_a_pair_divides_throughputs_and_names_changed_texts():
    ours = arm(outcome("a", seconds=1.0), outcome("b", seconds=4.0, text_hash="other"), seconds=4.0)
    theirs = arm(outcome("a", seconds=2.0), outcome("b", seconds=2.0), seconds=6.0)
    both = pair(ours, theirs)
    assert both.ratio == 1.5
    assert both.prompt_ratios == [2.0, 0.5]
    assert both.differing_prompts == ["b"]
    assert not both.has_looping_output
    assert pair(arm(outcome(is_looping=True)), arm(outcome())).has_looping_output
    assert pair(ours, theirs, spoiled_by="load").is_spoiled


def test_arms_over_different_prompts_are_no_pair():
    with pytest.raises(ValueError, match="same prompts"):
        pair(arm(outcome("a")), arm(outcome("b")))


def test_only_a_measured_cell_has_a_ratio():
    faster, level = Interval(1.4, 1.2, 1.6, 8, 0.99), Interval(1.01, 0.9, 1.1, 8, 0.99)
    assert CellResult(CELL, CellState.MEASURED, interval=faster).ratio == 1.4
    assert CellResult(CELL, CellState.TIE, interval=level).ratio is None
    for state in CellState:
        if state not in (CellState.MEASURED, CellState.TIE):
            assert CellResult(CELL, state, "why").ratio is None
            with pytest.raises(ValueError, match="has an interval"):
                CellResult(CELL, state, interval=faster)
    with pytest.raises(ValueError, match="called tie"):
        CellResult(CELL, CellState.TIE, interval=faster)
    with pytest.raises(ValueError, match="called measured"):
        CellResult(CELL, CellState.MEASURED, interval=level)
    with pytest.raises(ValueError, match="lacks an interval"):
        CellResult(CELL, CellState.MEASURED)


def test_states_are_exactly_the_seven():
    names = ["measured", "tie", "spoiled", "refused", "unsupported", "unreachable", "not run"]
    assert [state.value for state in CellState] == names


def test_candidates_have_one_off_and_labels():
    assert OFF.is_off
    assert OFF.family is None
    tree = Candidate("suffix", 3, True, (("depth", 24),))
    assert tree.label == "suffix (tree, depth=24) N=3"
    assert tree.family == dataclasses.replace(tree, num_speculative_tokens=1)
    with pytest.raises(ValueError, match="N = 0"):
        Candidate("ngram", 0)
    with pytest.raises(ValueError, match="sorted"):
        Candidate("ngram", 1, knobs=(("b", 1), ("a", 1)))


def tune_result(*cells):
    return TuneResult("r1", "hash", "{}", True, Conditions(), cells, (), (), (), (), (), (), (), ("repeat",), 3)


def test_a_tune_reads_back_from_json_whole():
    measured = CellResult(CELL, CellState.MEASURED, interval=Interval(1.4, 1.2, 1.6, 8, 0.99), num_pairs=8)
    control = CellResult(dataclasses.replace(CELL, workload="repeat"), CellState.NOT_RUN, "no time left")
    tune = tune_result(measured, control)
    assert serialise.from_json(TuneResult, serialise.to_json(tune)) == tune
    assert tune.ordinary_settings == [SETTING]
    assert len(tune.settings) == 2
    assert tune.find(CELL) == measured
    assert tune.in_setting(SETTING) == [measured]
    both = pair(arm(outcome(has_passed=True)), arm(outcome()))
    assert serialise.from_json(PairResult, serialise.to_json(both)) == both


def test_a_result_with_an_impossible_state_is_refused_on_reading():
    text = serialise.to_json(tune_result(CellResult(CELL, CellState.NOT_RUN, "why")))
    with pytest.raises(ForerunError, match="lacks an interval"):
        serialise.from_json(TuneResult, text.replace('"not run"', '"measured"'))
    with pytest.raises(ForerunError, match="TuneResult as JSON"):
        serialise.from_json(TuneResult, "{")
