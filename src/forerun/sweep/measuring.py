"""Runs pairs until every selected cell is settled, or the time is up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forerun.backends.base import Backend, UnreachableError
from forerun.errors import ForerunError
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import Cell, CellState, Setting
from forerun.sweep.forecast import Forecaster, recording_of
from forerun.sweep.measurements import PairResult
from forerun.sweep.oracle import require_no_leak
from forerun.sweep.plan import Plan
from forerun.sweep.preparation import Material, sampling_of
from forerun.sweep.progress import Deadline, Progress
from forerun.sweep.run_directory import RunDirectory
from forerun.sweep.statistics import has_enough_pairs
from forerun.sweep.trial import PairRun, Trial
from forerun.sweep.trials import Run
from forerun.types import RoundCounts
from forerun.workloads.prompt import Prompt

# Attempts per pair that counts: discarded and looping ones are repeated on other prompts, but not for ever.
MAX_ATTEMPTS_PER_PAIR = 3
WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Ending:
    """What ended a cell before its pairs were complete: the engine refused it, or was gone."""

    state: CellState
    reason: str


@dataclass(slots=True)
class Measured:
    """A cell with its pairs so far, and what ended it early, if anything did."""

    cell: Cell
    pairs: list[PairResult]
    ending: Ending | None = None
    is_warm: bool = False


@dataclass(slots=True)
class Measuring:
    """The pairs of one target's cells. Cells of one setting take turns, so that drift hits them alike."""

    plan: Plan
    backend: Backend
    trial: Trial
    run: Run
    directory: RunDirectory
    materials: Mapping[str, Material]
    max_tokens: int
    forecaster: Forecaster | None
    deadline: Deadline
    progress: Progress
    _gone: Ending | None = None

    def measure(self, picks: Sequence[Cell], runners_up: Sequence[Cell] = ()) -> dict[Cell, Measured]:
        """Every cell that was begun, and every pick. Each pair is on disk when it ends.

        With a time budget every pick gets its least number of pairs first. What is left goes to runners-up that can be
        completed, then to the cells that know least.
        """
        states = [Measured(cell, self.run.pairs(cell)) for cell in picks]
        has_budget = self.deadline.budget is not None
        goal = self.plan.min_pairs if has_budget else self.plan.max_pairs
        for setting, members in _by_setting(states).items():
            self.progress.stage(f"measuring {setting.label}")
            self._take_turns(members, states, goal)
        states += self._measure_runners_up(runners_up, states, goal)
        if has_budget:
            self._use_what_is_left(states)
        return {state.cell: state for state in states}

    def _take_turns(self, members: Sequence[Measured], states: Sequence[Measured], goal: int) -> None:
        pending = [state for state in members if not self._is_settled(state, goal)]
        while pending:
            for state in pending:
                if self.deadline.left <= 0:
                    return
                self._next_pair(state)
                self._report(states, goal)
            pending = [state for state in pending if not self._is_settled(state, goal)]

    def _measure_runners_up(self, cells: Sequence[Cell], states: Sequence[Measured], goal: int) -> list[Measured]:
        """Those whose least number of pairs fits the time that is left; a shorter attempt would say nothing."""
        begun: list[Measured] = []
        for cell in cells:
            state = Measured(cell, self.run.pairs(cell))
            beside = [_seconds(pair) for other in states if other.cell.setting == cell.setting for pair in other.pairs]
            # One more for the warm-up. Where the pick was refused there is nothing to go by, and more reason to try.
            if not state.pairs and (self.plan.min_pairs + 1) * max(beside, default=0.0) > self.deadline.left:
                continue
            self.progress.stage(f"measuring a runner-up on {cell.setting.label}")
            begun.append(state)
            self._take_turns([state], [*states, *begun], goal)
        return begun

    def _use_what_is_left(self, states: Sequence[Measured]) -> None:
        """Spare time goes to undecided cells, those that know least first."""
        goal = self.plan.max_pairs
        self.progress.stage("spending what is left on undecided cells")
        while undecided := [state for state in states if state.pairs and not self._is_settled(state, goal)]:
            state = min(undecided, key=lambda one: len(one.pairs))
            if self.deadline.left < 2 * _seconds(state.pairs[-1]):
                return
            self._next_pair(state)
            self._report(states, goal)

    def _is_settled(self, state: Measured, goal: int) -> bool:
        kept = self.kept(state.pairs)
        most_attempts = MAX_ATTEMPTS_PER_PAIR * max(self.plan.min_pairs, len(kept) + 1)
        if state.ending is not None or len(kept) >= goal or len(state.pairs) >= most_attempts:
            return True
        return len(kept) >= self.plan.min_pairs and has_enough_pairs(
            [pair.ratio for pair in kept],
            min_pairs=self.plan.min_pairs,
            max_pairs=self.plan.max_pairs,
            max_half_width=self.plan.max_half_width,
        )

    def kept(self, pairs: Sequence[PairResult]) -> list[PairResult]:
        """Pairs that count."""
        return [
            pair
            for pair in pairs
            if not pair.is_spoiled
            and (self.materials[pair.cell.workload].workload.is_control or not pair.has_looping_output)
        ]

    def _next_pair(self, state: Measured) -> None:
        if self._gone is not None:
            state.ending = self._gone
            return
        index = len(state.pairs)
        cell = state.cell
        params = sampling_of(self.plan, cell.temperature, self.max_tokens, self._turn(cell, index))
        try:
            if not state.is_warm:
                warm_up = sampling_of(self.plan, cell.temperature, min(WARM_UP_TOKENS, self.max_tokens))
                self.trial.warm_up(cell, self.materials[cell.workload].choose[0], warm_up)
                state.is_warm = True
            done = self.trial.run_pair(cell, index, self._prompts(cell, index), params)
        except UnreachableError as error:
            # Nobody waits for a dead engine once per cell.
            state.ending = self._gone = Ending(CellState.UNREACHABLE, str(error))
            return
        except ForerunError as error:
            state.ending = Ending(CellState.REFUSED, str(error))
            return
        self._require_cold(done, params)
        raw = self.directory.write(f"{_file_name(cell)}-{index}", done.raw())
        self.run.record_pair(done.pair, raw)
        state.pairs.append(done.pair)

    def _prompts(self, cell: Cell, index: int) -> list[Prompt]:
        """Fresh prompts per pair, as long as there are some."""
        prompts = self.materials[cell.workload].measure
        first = index * cell.concurrency
        return [prompts[(first + offset) % len(prompts)] for offset in range(cell.concurrency)]

    def _turn(self, cell: Cell, index: int) -> int:
        """Which seed's turn it is. One more per lap, so that a prompt that comes again gets another seed."""
        pairs_per_lap = -(-len(self.materials[cell.workload].measure) // cell.concurrency)
        return index % pairs_per_lap + index // pairs_per_lap

    def _require_cold(self, done: PairRun, params: SamplingParams) -> None:
        """A retrieval arm must have the counts of a cold replay over the very text it gave."""
        probe = self.backend.probe
        if self.forecaster is None or probe is None:
            return
        expected: dict[str, RoundCounts] = {}
        for request in done.candidate.requests:
            recording = recording_of(request, probe.traits, params)
            counts = self.forecaster.expect(done.pair.cell.candidate, recording)
            if counts is not None:
                expected[request.prompt_id] = counts
        require_no_leak(done.pair.candidate.prompts, expected)

    def _report(self, states: Sequence[Measured], goal: int) -> None:
        done = sum(len(self.kept(state.pairs)) for state in states)
        total = sum(
            len(self.kept(state.pairs)) if self._is_settled(state, goal) else max(goal, len(self.kept(state.pairs)))
            for state in states
        )
        seconds = [_seconds(pair) for state in states for pair in state.pairs]
        mean = sum(seconds) / len(seconds) if seconds else None
        self.progress.advance(done, total, None if mean is None else min(mean * (total - done), self.deadline.left))


def _by_setting(states: Sequence[Measured]) -> dict[Setting, list[Measured]]:
    found: dict[Setting, list[Measured]] = {}
    for state in states:
        found.setdefault(state.cell.setting, []).append(state)
    return found


def _seconds(pair: PairResult) -> float:
    return pair.candidate.seconds + pair.off.seconds


def _file_name(cell: Cell) -> str:
    """A name that tells the cell apart and offends no file system."""
    text = "-".join(
        (cell.target, cell.workload, f"T{cell.temperature:g}", f"c{cell.concurrency}", cell.candidate.label)
    )
    return re.sub(r"[^A-Za-z0-9.=_-]+", "_", text)[-120:]
