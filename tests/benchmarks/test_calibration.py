"""Every peer runs in the fastest of its tunings, found on prompts of its own, before settings are compared."""

from __future__ import annotations

from benchmarks.calibration import candidates, chosen, tuned, tuning_rows
from benchmarks.peers.base import Setting, Tuning
from benchmarks.report import CALIBRATE, CHOOSE
from benchmarks.trial import Trial
from fake_peer import FakePeer, answer, setting

ONE, TWO, ASLEEP = Tuning(1), Tuning(2), Tuning(2, "passive")
OURS, THEIRS, DRAFTING = setting("forerun"), setting("b"), setting("b", "ngram")
PEERS = {"forerun": FakePeer("forerun"), "b": FakePeer("b", tunable=(ONE, TWO, ASLEEP))}


def trial(who: Setting, seconds: float, stage: str = CALIBRATE, spoiled: str = "") -> Trial:
    return Trial(stage, 1, "code", "p", who, answer(seconds), spoiled)


def test_only_plain_settings_of_peers_with_a_choice_are_tried() -> None:
    tried = candidates(PEERS, [OURS, THEIRS, DRAFTING], 2)
    assert [(s.peer, s.method, s.tuning) for s in tried] == [("b", "plain", t) for t in (ONE, TWO, ASLEEP)]
    assert len({s.label for s in tried}) == 3 and tried[2].label == "b plain (bf16; 2 threads, passive)"


def test_the_fastest_tuning_goes_to_every_setting_of_its_peer() -> None:
    tried = candidates(PEERS, [OURS, THEIRS], 2)
    trials = [trial(OURS, 1.0), *(trial(who, seconds) for who, seconds in zip(tried, (2.0, 3.0, 4.0)))]
    # What happens later, or on a busy machine, decides nothing.
    trials += [trial(tried[1], 0.1, CHOOSE), trial(tried[2], 0.1, spoiled="busy")]
    found = chosen(trials, tried, OURS)
    assert found == {"b": ONE}
    assert [s.tuning for s in tuned([OURS, THEIRS, DRAFTING], found)] == [None, ONE, ONE]
    rows = tuning_rows(trials, tried, found, OURS)
    assert [(row.ratio.median, row.is_chosen) for row in rows] == [(0.5, True), (1 / 3, False), (0.25, False)]


def test_without_a_measurement_the_first_one_stands() -> None:
    tried = candidates(PEERS, [THEIRS], 2)
    assert chosen([], tried, OURS) == {"b": ONE}
    assert not any(row.is_chosen for row in tuning_rows([], tried, {"b": ONE}, OURS))
    assert chosen([], [], OURS) == {}
