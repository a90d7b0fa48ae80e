"""Chosen on some prompts, compared on others: a best setting picked and measured on the same ones flatters itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.base import Setting, Weights
from benchmarks.report import CHOOSE, MEASURE, Figure, RatioRow
from benchmarks.trial import Trial, best, decode_ratio, throughput_ratio

OURS = "forerun"
ANY_PEER = "any peer"
# Settings among which a best one is chosen: a peer, and for forerun the weights that it runs.
Side = tuple[str, Weights]


@dataclass(frozen=True, slots=True)
class Finalists:
    """For one workload: the plain and the best setting of every side that ran, and the side of the best peer."""

    workload: str
    plain: Mapping[Side, Setting]
    best: Mapping[Side, Setting]
    best_peer: Side | None

    @property
    def settings(self) -> list[Setting]:
        """All of them, each once, forerun's first."""
        found = dict.fromkeys([*self.plain.values(), *self.best.values()])
        return sorted(found, key=lambda setting: setting.peer != OURS)

    @property
    def groups(self) -> list[tuple[list[Setting], list[Setting]]]:
        """forerun's settings of one kind of weights, with those of the peers that they are compared with."""
        ours = [setting for setting in self.settings if setting.peer == OURS]
        kinds = dict.fromkeys(setting.weights for setting in ours)
        theirs: dict[Weights, list[Setting]] = {kind: [] for kind in kinds}
        for setting in self.settings:
            if (
                setting.peer != OURS
                and (kind := setting.weights if setting.weights in kinds else Weights.BF16) in kinds
            ):
                theirs[kind].append(setting)
        return [([s for s in ours if s.weights is kind], found) for kind, found in theirs.items() if found]


def choose(trials: Sequence[Trial], settings: Sequence[Setting], workload: str, reference: Setting) -> Finalists:
    """On the choosing prompts alone, each setting by its ratio to ``reference``, which ran beside all of them."""
    here = [trial for trial in trials if trial.stage == CHOOSE and trial.workload == workload]
    sides: dict[Side, list[Setting]] = {}
    for setting in settings:
        if any(trial.setting == setting for trial in here):
            sides.setdefault((setting.peer, setting.weights), []).append(setting)
    plain = {side: setting for side, members in sides.items() for setting in members if setting.is_plain}
    bests: dict[Side, Setting] = {}
    for side, members in sides.items():
        if (found := best(here, members, reference)) is not None:
            bests[side] = found
    top = best(here, [setting for side, setting in bests.items() if side[0] != OURS], reference)
    return Finalists(workload, plain, bests, None if top is None else (top.peer, top.weights))


def figures(trials: Sequence[Trial], found: Finalists, reaches: Mapping[tuple[str, str], float]) -> list[Figure]:
    """Plain over plain and best over best for every peer, then best over the best of any.

    ``reaches`` are what is aimed at, by ("plain", peer) or (workload, ``ANY_PEER``).
    """
    here = [trial for trial in trials if trial.stage == MEASURE and trial.workload == found.workload]
    rows = []
    for kind, chosen in (("plain", found.plain), ("best", found.best)):
        for side, theirs in chosen.items():
            ours = _counterpart(side, chosen)
            if side[0] != OURS and ours is not None:
                rows.append(
                    _figure(here, found.workload, f"{kind} / {kind}", ours, theirs, reaches.get((kind, side[0])))
                )
    if found.best_peer is not None and (ours := _counterpart(found.best_peer, found.best)) is not None:
        theirs = found.best[found.best_peer]
        reach = reaches.get((found.workload, ANY_PEER))
        rows.append(_figure(here, found.workload, f"best / best of {ANY_PEER}", ours, theirs, reach))
    return rows


def _counterpart(side: Side, chosen: Mapping[Side, Setting]) -> Setting | None:
    """forerun on the same kind of weights, or on the only kind that it was run with."""
    return chosen.get((OURS, side[1]), chosen.get((OURS, Weights.BF16)))


def _figure(
    trials: Sequence[Trial], workload: str, what: str, ours: Setting, theirs: Setting, reach: float | None
) -> Figure:
    return Figure(
        workload,
        what,
        ours.label,
        theirs.label,
        RatioRow.of(throughput_ratio(trials, ours, theirs)),
        RatioRow.of(decode_ratio(trials, ours, theirs)),
        reach,
    )
