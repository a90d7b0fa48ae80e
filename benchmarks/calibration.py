"""How each engine's threads run best, found before anything is compared: a peer that is held back proves nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from benchmarks.peers.base import Peer, Setting, Tuning
from benchmarks.report import CALIBRATE, RatioRow, TuningRow
from benchmarks.trial import Trial, best, throughput_ratio, totals


def candidates(peers: Mapping[str, Peer], settings: Iterable[Setting], threads: int) -> list[Setting]:
    """Every peer's plain setting in each of its tunings; none of peers that leave nothing to choose."""
    return [
        replace(setting, tuning=tuning)
        for setting in settings
        if setting.is_plain
        for tuning in peers[setting.peer].tunings(threads)
    ]


def chosen(trials: Sequence[Trial], tried: Sequence[Setting], reference: Setting) -> dict[str, Tuning]:
    """By peer the fastest of what was tried, beside ``reference``; the first where none could be measured."""
    here = [trial for trial in trials if trial.stage == CALIBRATE]
    found: dict[str, Tuning] = {}
    for peer in dict.fromkeys(setting.peer for setting in tried):
        members = [setting for setting in tried if setting.peer == peer]
        fastest = best(here, members, reference) or members[0]
        assert fastest.tuning is not None
        found[peer] = fastest.tuning
    return found


def tuned(settings: Iterable[Setting], tunings: Mapping[str, Tuning]) -> list[Setting]:
    """All settings, each in its peer's tuning."""
    return [replace(setting, tuning=tunings.get(setting.peer)) for setting in settings]


def tuning_rows(
    trials: Sequence[Trial], tried: Sequence[Setting], tunings: Mapping[str, Tuning], reference: Setting
) -> list[TuningRow]:
    """What was tried, and what came of it."""
    here = [trial for trial in trials if trial.stage == CALIBRATE]
    rows = []
    for setting in tried:
        ratio = throughput_ratio(here, setting, reference)
        is_chosen = ratio.num_pairs > 0 and setting.tuning == tunings[setting.peer]
        speed = totals(here, setting).tokens_per_second
        rows.append(TuningRow(setting.label, speed, RatioRow.of(ratio), is_chosen))
    return rows
