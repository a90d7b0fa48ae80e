"""Verdicts and inflation on hand-made cells."""

import pytest

from forerun.sweep.cells import OFF, Candidate, Cell, CellState, Setting
from forerun.sweep.choose import choose, inflation, num_comparisons, verdict
from forerun.sweep.results import CellResult, Figures, Interval
from forerun.types import PositionCounts, RoundCounts, Timings

CODE = Setting("smollm2", "code", 0.0, 1)
PROSE = Setting("smollm2", "prose", 0.0, 1)
REPEAT = Setting("smollm2", "repeat", 0.0, 1)
CONTROLS = ("repeat",)


def figures(rounds=10, without=4, drafted=18, accepted=9):
    counts = RoundCounts(rounds, without, drafted, accepted, rounds + accepted, (PositionCounts(6, 6, 5),))
    return Figures(counts, Timings(), 100.0, 0.1, 0.2, 0.01, 0.02, None, 0, 10**6, 0.1)


def cell(setting, method, n, median=None, width=0.05, **more):
    key = Cell.of(setting, Candidate(method, n) if n else OFF)
    if median is None:
        return CellResult(key, more.pop("state", CellState.NOT_RUN), more.pop("reason", "no time left"), **more)
    found = Interval(median, median - width, median + width, 12, 0.98)
    state = CellState.TIE if found.includes_one else CellState.MEASURED
    return CellResult(key, state, interval=found, num_pairs=12, **more)


def test_the_fastest_family_wins_with_the_smallest_n_on_its_plateau():
    results = [
        cell(CODE, "ngram", 1, 1.2),
        cell(CODE, "ngram", 3, 1.47, figures=figures(), break_even_tokens_per_round=1.3),
        cell(CODE, "ngram", 7, 1.5),
        cell(CODE, "suffix", 3, 1.46),
        cell(CODE, "suffix", 7, 1.1),
    ]
    found = verdict(CODE, results)
    assert found.pick == Candidate("ngram", 3)
    assert found.interval.median == 1.47
    assert not found.is_tie
    text = " ".join(found.sentences)
    assert "ngram N=3 makes code 1.47 times as fast as plain decoding (1.42 to 1.52, 12 pairs)." in text
    assert "yields 1.90 tokens, more than the 1.30" in text
    assert "60% of rounds had a draft and 50% of its tokens were accepted" in text
    assert "ngram N=7 reached 1.50, which is no difference" in text
    assert "Not to be told from it: suffix N=3 (1.46)." in text


def test_off_wins_where_everything_is_slower_and_the_report_says_why():
    slow = cell(
        PROSE, "ngram", 3, 0.9, figures=figures(), break_even_tokens_per_round=2.1, verify_steps=2.0, draft_steps=0.1
    )
    found = verdict(PROSE, [slow, cell(PROSE, "suffix", 3, 0.8)])
    assert (found.pick, found.interval, found.is_tie) == (OFF, None, False)
    text = " ".join(found.sentences)
    assert "Plain decoding is fastest on prose: the best of 2, ngram N=3, came to 0.90" in text
    assert "less than the 2.10" in text
    assert "the pass costs 2.00 plain steps, the draft 0.10" in text


def test_a_tie_says_so():
    found = verdict(PROSE, [cell(PROSE, "ngram", 3, 1.02), cell(PROSE, "suffix", 3, 0.8)])
    assert (found.pick, found.is_tie) == (OFF, True)
    assert "No method can be told from plain decoding on prose" in found.sentences[0]


def test_nothing_measured_is_no_tie_and_gives_the_reasons():
    results = [
        cell(PROSE, "ngram", 3, reason="no time left"),
        cell(PROSE, "ngram", 7, reason="no time left"),
        cell(PROSE, "draft_model", 1, state=CellState.UNSUPPORTED, reason="no candidate for this target"),
    ]
    found = verdict(PROSE, results)
    assert (found.pick, found.is_tie) == (OFF, False)
    assert found.sentences[0] == "Nothing was measured on prose: plain decoding stays."
    assert "1 unsupported: no candidate for this target." in found.sentences
    assert "2 not run: no time left." in found.sentences


def test_a_candidate_that_changed_a_text_cannot_win():
    results = [cell(CODE, "ngram", 3, 2.0, differing_prompts=("p1",)), cell(CODE, "suffix", 3, 1.2)]
    found = verdict(CODE, results)
    assert found.pick == Candidate("suffix", 3)
    assert "ngram N=3 changed 1 text(s): a bug, and it can't win." in found.sentences
    only = verdict(CODE, results[:1])
    assert only.pick == OFF
    assert "changed 1 text(s)" in " ".join(only.sentences)


def test_a_prediction_far_off_is_mentioned():
    assert any(
        "expected 2.00" in sentence
        for sentence in verdict(CODE, [cell(CODE, "ngram", 3, 1.5, predicted_ratio=2.0)]).sentences
    )
    assert not any(
        "expected" in sentence
        for sentence in verdict(CODE, [cell(CODE, "ngram", 3, 1.5, predicted_ratio=1.45)]).sentences
    )


def test_controls_enter_no_verdict_but_give_the_inflation():
    results = [
        cell(REPEAT, "ngram", 7, 4.0),
        cell(CODE, "ngram", 7, 1.6),
        cell(PROSE, "ngram", 7, 0.9),
        cell(REPEAT, "suffix", 3, predicted_ratio=3.0),
        cell(CODE, "suffix", 3, 1.5),
    ]
    assert [entry.setting for entry in choose(results, CONTROLS)] == [CODE, PROSE]
    ngram, suffix = inflation(results, CONTROLS)
    assert ngram.factor == pytest.approx(4.0 / (1.6 * 0.9) ** 0.5)
    assert (ngram.num_workloads, ngram.is_predicted) == (2, False)
    assert (suffix.factor, suffix.is_predicted) == (2.0, True)
    assert num_comparisons(results) == 4


def test_inflation_compares_a_candidate_with_itself_and_prefers_measured_ones():
    results = [
        cell(REPEAT, "ngram", 7, predicted_ratio=6.0),
        cell(CODE, "ngram", 7, predicted_ratio=1.5),
        cell(REPEAT, "ngram", 3, 3.0),
        cell(CODE, "ngram", 3, 1.5),
        cell(REPEAT, "ngram", 15, 9.0),
    ]
    (found,) = inflation(results, CONTROLS)
    assert found.candidate == Candidate("ngram", 3)
    assert found.factor == 2.0
    assert inflation([cell(REPEAT, "ngram", 3, 3.0)], CONTROLS) == ()
