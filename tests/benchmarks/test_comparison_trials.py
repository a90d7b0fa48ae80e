"""Ratios from pairs that ran side by side, and best settings chosen on prompts that don't measure them."""

from __future__ import annotations

import pytest
from benchmarks.finalists import choose, figures
from benchmarks.peers.base import Answer, Setting, Weights
from benchmarks.report import CHOOSE, MEASURE
from benchmarks.trial import Trial, agreement, best, decode_ratio, throughput_ratio, totals
from fake_peer import answer, setting

OURS, PLAIN = setting("forerun", "suffix", n=7), setting("forerun")
THEIRS, THEIR_BEST = setting("b"), setting("b", "ngram")


def trial(
    who: Setting, seconds: float, round: int = 1, stage: str = MEASURE, spoiled: str = "", decoding: float = 0.0
) -> Trial:
    return Trial(stage, round, "code", f"p{round}", who, answer(seconds, decoding=decoding), spoiled)


def test_a_ratio_pairs_only_what_ran_in_one_round() -> None:
    trials = [trial(OURS, 1.0, 1), trial(THEIRS, 3.0, 1), trial(OURS, 1.0, 2), trial(THEIRS, 9.0, 3)]
    assert throughput_ratio(trials, OURS, THEIRS).values == (3.0,)
    assert throughput_ratio(trials, THEIRS, OURS).values == (1 / 3,)


def test_spoiled_answers_pair_with_nothing_but_their_repetitions_do() -> None:
    trials = [trial(OURS, 1.0), trial(THEIRS, 50.0, spoiled="busy"), trial(THEIRS, 2.0)]
    assert throughput_ratio(trials, OURS, THEIRS).values == (2.0,)
    assert totals(trials, THEIRS).num_spoiled == 1 and totals(trials, THEIRS).num_trials == 1


def test_decoding_leaves_the_first_token_out() -> None:
    trials = [trial(OURS, 2.0, decoding=1.0), trial(THEIRS, 5.0, decoding=4.0)]
    assert decode_ratio(trials, OURS, THEIRS).values == (4.0,)
    assert totals(trials, OURS).seconds_per_token == pytest.approx(1 / 3)


def test_an_interval_from_six_pairs_on() -> None:
    trials = [t for i in range(6) for t in (trial(OURS, 1.0, i), trial(THEIRS, 2.0 + i, i))]
    assert throughput_ratio(trials[:10], OURS, THEIRS).interval is None
    interval = throughput_ratio(trials, OURS, THEIRS).interval
    assert interval is not None and (interval.low, interval.median, interval.high) == (2.0, 4.5, 7.0)


def test_counts_and_steps() -> None:
    drafted = Answer((1, 2, 3, 4, 5), 1.0, 0.0, num_drafted=6, num_accepted=2, num_steps=2)
    untold = Answer((1, 2, 3), 1.0, 0.0, num_drafted=1, num_accepted=1, num_steps=None)
    trials = [Trial(MEASURE, i, "code", str(i), OURS, found) for i, found in enumerate((drafted, untold))]
    sums = totals(trials, OURS)
    assert (sums.num_drafted, sums.num_accepted, sums.tokens_per_step) == (7, 3, 2.0)
    assert totals([], OURS).tokens_per_second is None and totals([], OURS).tokens_per_step is None


def test_agreement_says_where_texts_part() -> None:
    def of(who: Setting, id: str, *tokens: int) -> Trial:
        return Trial(MEASURE, 1, "code", id, who, answer(1.0, tokens), "busy")

    trials = [of(OURS, "p", 1, 2, 3), of(PLAIN, "p", 1, 2, 3), of(OURS, "q", 1, 2, 9), of(PLAIN, "q", 1, 2, 3)]
    found = agreement([*trials, of(OURS, "r", 1)], OURS, PLAIN)
    assert (found.num_texts, found.num_same, found.first_differences) == (2, 1, (2,))


def test_the_best_is_chosen_on_the_choosing_prompts_alone() -> None:
    trials = [trial(PLAIN, 4.0, stage=CHOOSE), trial(OURS, 2.0, stage=CHOOSE)]
    trials += [trial(THEIRS, 4.0, stage=CHOOSE), trial(THEIR_BEST, 3.0, stage=CHOOSE)]
    # On fresh prompts the chosen ones turn out slow, and are reported all the same.
    for i in range(6):
        trials += [trial(PLAIN, 2.0, i), trial(OURS, 4.0, i), trial(THEIRS, 6.0, i), trial(THEIR_BEST, 8.0, i)]
    found = choose(trials, [PLAIN, OURS, THEIRS, THEIR_BEST], "code", PLAIN)
    assert found.settings == [PLAIN, OURS, THEIRS, THEIR_BEST]
    rows = figures(trials, found, {("plain", "b"): 2.0})
    assert [(row.what, row.ours, row.theirs) for row in rows] == [
        ("plain / plain", PLAIN.label, THEIRS.label),
        ("best / best", OURS.label, THEIR_BEST.label),
        ("best / best of any peer", OURS.label, THEIR_BEST.label),
    ]
    assert [row.end_to_end.median for row in rows] == [3.0, 2.0, 2.0]
    assert [row.reach for row in rows] == [2.0, None, None]


def test_gguf_peers_stand_beside_our_gguf_arithmetic_where_it_ran() -> None:
    ours = {kind: setting("forerun", weights=kind) for kind in Weights}
    theirs = {kind: setting(f"peer of {kind.value}", weights=kind) for kind in Weights}
    everything = [*ours.values(), *theirs.values()]
    trials = [trial(who, 1.0, stage=stage) for who in everything for stage in (CHOOSE, MEASURE)]
    pairs = {
        row.theirs: row.ours for row in figures(trials, choose(trials, everything, "code", ours[Weights.BF16]), {})
    }
    assert pairs == {theirs[kind].label: ours[kind].label for kind in Weights}
    fewer = [ours[Weights.BF16], *theirs.values()]
    pairs = {row.theirs: row.ours for row in figures(trials, choose(trials, fewer, "code", fewer[0]), {})}
    assert set(pairs.values()) == {ours[Weights.BF16].label}


def test_every_peer_is_compared_in_one_group_with_the_same_weights_of_ours() -> None:
    ours = {kind: setting("forerun", weights=kind) for kind in Weights}
    theirs = {kind: setting(f"peer of {kind.value}", weights=kind) for kind in Weights}
    both = [*ours.values(), *theirs.values()]
    trials = [trial(who, 1.0, stage=CHOOSE) for who in both]
    found = choose(trials, both, "code", ours[Weights.BF16]).groups
    assert sorted(found, key=str) == sorted((([ours[kind]], [theirs[kind]]) for kind in Weights), key=str)
    fewer = [ours[Weights.BF16], *theirs.values()]
    ((first, others),) = choose(trials, fewer, "code", fewer[0]).groups
    assert first == [ours[Weights.BF16]] and set(others) == set(theirs.values())


def test_nothing_measured_chooses_nothing() -> None:
    assert best([], [OURS], PLAIN) is None
    found = choose([], [PLAIN, THEIRS], "code", PLAIN)
    assert found.settings == [] and figures([], found, {}) == []
