"""One trial: a candidate and ``off`` in turn on the same prompts, watched for what else the machine did."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forerun.backends.base import Backend, RequestRecord, TrialRecord
from forerun.engine.drafting import Drafting
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import OFF, Candidate, Cell
from forerun.sweep.load_guard import LoadLimits, LoadSample, LoadWatch, read_machine
from forerun.sweep.measurements import Arm, LoadReading, PairResult, PromptOutcome
from forerun.sweep.turns import Conversations, run_conversations
from forerun.types import Timings
from forerun.workloads.prompt import Prompt
from forerun.workloads.repetition import score_tokens


@dataclass(frozen=True, slots=True)
class PairRun:
    """A finished pair with the raw records of both arms."""

    pair: PairResult
    candidate: TrialRecord
    off: TrialRecord

    def raw(self) -> list[Mapping[str, Any]]:
        """A row per request for the run directory."""
        arms = ((self.pair.cell.candidate, self.candidate), (OFF, self.off))
        return [_raw(candidate, request) for candidate, record in arms for request in record.requests]


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs pairs on one backend. ``may_execute``: whether checkers may run code that the model wrote.

    ``sample_load`` reads the machine before and after each arm.
    """

    backend: Backend
    limits: LoadLimits = field(default_factory=LoadLimits)
    warm_corpus: Sequence[Sequence[int]] = ()
    may_execute: bool = False
    sample_load: Callable[[], LoadSample] = read_machine

    def run_pair(self, cell: Cell, index: int, prompts: Sequence[Prompt], params: SamplingParams) -> PairRun:
        """One pair. Every second one begins with ``off``."""
        is_candidate_first = index % 2 == 0
        order = (cell.candidate, OFF) if is_candidate_first else (OFF, cell.candidate)
        arms: dict[Candidate, Arm] = {}
        records: dict[Candidate, TrialRecord] = {}
        for candidate in order:
            done, reading = self._run(candidate, prompts, params, cell.concurrency)
            records[candidate] = done.record
            arms[candidate] = self._arm(done, reading)
        ours, off = arms[cell.candidate], arms[OFF]
        spoiled_by = self.limits.spoiled_by(ours.load, off.load)
        pair = PairResult(cell, index, ours, off, is_candidate_first, spoiled_by)
        return PairRun(pair, records[cell.candidate], records[OFF])

    def warm_up(self, cell: Cell, prompt: Prompt, params: SamplingParams) -> None:
        """Both arms once, as wide as the cell, on a prompt that no pair uses; nothing is kept."""
        for candidate in (cell.candidate, OFF):
            self._run(candidate, [replace(prompt, later_turns=())] * cell.concurrency, params, cell.concurrency)

    def _run(
        self, candidate: Candidate, prompts: Sequence[Prompt], params: SamplingParams, concurrency: int
    ) -> tuple[Conversations, LoadReading]:
        with LoadWatch(self.sample_load) as watch:
            done = run_conversations(
                self.backend,
                prompts,
                drafting_of(candidate),
                params,
                concurrency=concurrency,
                drafter=candidate.drafter,
                warm_corpus=() if candidate.is_off else self.warm_corpus,
            )
        return done, watch.reading

    def _arm(self, done: Conversations, reading: LoadReading) -> Arm:
        record = done.record
        outcomes = tuple(
            self._outcome(prompt, request) for prompt, request in zip(done.prompts, record.requests, strict=True)
        )
        timings = sum((request.timings for request in record.requests), Timings())
        return Arm(outcomes, record.seconds, timings, record.peak_memory, reading)

    def _outcome(self, prompt: Prompt, request: RequestRecord) -> PromptOutcome:
        asked, repetition = score_tokens(request.prompt_ids), score_tokens(request.token_ids)
        checked = prompt.check(request.text, may_execute=self.may_execute)
        return PromptOutcome(
            prompt.id,
            request.seconds,
            request.token_times,
            request.counts,
            text_hash(request.token_ids),
            request.finish_reason,
            asked.repeated_ngrams,
            repetition.repeated_ngrams,
            repetition.is_looping,
            None if checked is None else checked.passed,
            asked.compressibility,
            repetition.compressibility,
            asked.is_looping,
        )


def drafting_of(candidate: Candidate) -> Drafting:
    """A candidate as the engine takes it."""
    return Drafting(
        candidate.method,
        candidate.num_speculative_tokens,
        is_tree=candidate.is_tree,
        knobs=dict(candidate.knobs),
    )


def text_hash(tokens: Sequence[int]) -> str:
    """Equal for equal token ids."""
    return hashlib.sha256(b"".join(token.to_bytes(8, "little") for token in tokens)).hexdigest()


def _raw(candidate: Candidate, request: RequestRecord) -> Mapping[str, Any]:
    return {
        "candidate": candidate.label,
        "prompt_id": request.prompt_id,
        "prompt_ids": list(request.prompt_ids),
        "token_ids": list(request.token_ids),
        "text": request.text,
        "finish_reason": request.finish_reason,
        "seed": request.seed,
        "num_cached_tokens": request.num_cached_tokens,
        "seconds": request.seconds,
        "token_times": list(request.token_times),
        "rounds": request.counts.rounds,
        "drafted": request.counts.drafted,
        "accepted": request.counts.accepted,
    }
