"""Runs pairs until every selected cell is settled, or the time is up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forerun.backends.base import Backend
from forerun.errors import ForerunError
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import Cell, Setting
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

# Attempts per pair that is needed: discarded and looping ones are repeated on other prompts, but not for ever.
MAX_ATTEMPTS_PER_PAIR = 3
WARM_UP_TOKENS = 4


@dataclass(slots=True)
class _Open:
    """A cell that needs more pairs. ``refusal`` ends it."""

    cell: Cell
    pairs: list[PairResult]
    is_warm: bool = False
    refusal: str = ""


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

    def measure(self, cells: Sequence[Cell]) -> dict[Cell, tuple[list[PairResult], str]]:
        """Pairs of every cell, with the engine's refusal if it ended on one. Each pair is on disk when it ends."""
        states = [_Open(cell, self.run.pairs(cell)) for cell in cells]
        by_setting: dict[Setting, list[_Open]] = {}
        for state in states:
            by_setting.setdefault(state.cell.setting, []).append(state)
        target = self._first_goal()
        for setting, members in by_setting.items():
            self.progress.stage(f"measuring {setting.label}")
            self._take_turns(members, states, target)
        if self.plan.quick:
            self._use_what_is_left(states)
        return {state.cell: (state.pairs, state.refusal) for state in states}

    def _first_goal(self) -> int:
        return self.plan.min_pairs if self.plan.quick else self.plan.max_pairs

    def _take_turns(self, members: Sequence[_Open], states: Sequence[_Open], goal: int) -> None:
        pending = [state for state in members if not self._is_settled(state, goal)]
        while pending and self.deadline.left > 0:
            for state in pending:
                self._next_pair(state)
                self._report(states, goal)
            pending = [state for state in pending if not self._is_settled(state, goal)]

    def _use_what_is_left(self, states: Sequence[_Open]) -> None:
        """A quick sweep spends its spare time on the cells that know least."""
        while True:
            goal = self.plan.max_pairs
            open_states = [s for s in states if s.pairs and not self._is_settled(s, goal)]
            if not open_states:
                return
            state = min(open_states, key=lambda s: len(s.pairs))
            if self.deadline.left < 2 * _seconds(state.pairs[-1]):
                return
            self._next_pair(state)

    def _is_settled(self, state: _Open, goal: int) -> bool:
        if state.refusal or len(state.pairs) >= MAX_ATTEMPTS_PER_PAIR * goal:
            return True
        kept = self.kept(state.pairs)
        if len(kept) < self.plan.min_pairs:
            return False
        return len(kept) >= goal or has_enough_pairs(
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

    def _next_pair(self, state: _Open) -> None:
        index = len(state.pairs)
        cell = state.cell
        params = sampling_of(self.plan, cell.temperature, self.max_tokens, index)
        try:
            if not state.is_warm:
                warm_up = sampling_of(self.plan, cell.temperature, min(WARM_UP_TOKENS, self.max_tokens))
                self.trial.warm_up(cell, self.materials[cell.workload].choose[0], warm_up)
                state.is_warm = True
            done = self.trial.run_pair(cell, index, self._prompts(cell, index), params)
        except ForerunError as error:
            state.refusal = str(error)
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

    def _report(self, states: Sequence[_Open], goal: int) -> None:
        done = sum(len(self.kept(state.pairs)) for state in states)
        total = sum(
            len(self.kept(state.pairs)) if self._is_settled(state, goal) else max(goal, len(self.kept(state.pairs)))
            for state in states
        )
        seconds = [_seconds(pair) for state in states for pair in state.pairs]
        mean = sum(seconds) / len(seconds) if seconds else None
        self.progress.advance(done, total, None if mean is None else min(mean * (total - done), self.deadline.left))


def _seconds(pair: PairResult) -> float:
    return pair.candidate.seconds + pair.off.seconds


def _file_name(cell: Cell) -> str:
    """A name that tells the cell apart and offends no file system."""
    text = "-".join(
        (cell.target, cell.workload, f"T{cell.temperature:g}", f"c{cell.concurrency}", cell.candidate.label)
    )
    return re.sub(r"[^A-Za-z0-9.=_-]+", "_", text)[-120:]
