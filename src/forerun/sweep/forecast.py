"""What every candidate should bring before it is measured: exact acceptance by replay, C and D, and so a ratio.

``off`` runs once over prompts that are not measured later. A retrieval method is replayed over that text without the
target; a method with weights runs once at its largest N, and smaller N are read off its positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forerun.backends.base import Backend, RequestRecord, UnreachableError
from forerun.drafters.base import Drafter
from forerun.drafters.registry import find_method
from forerun.engine.drafting import Drafting
from forerun.errors import ForerunError
from forerun.models.base import TargetTraits
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import Candidate, Cell
from forerun.sweep.cost_model import CostModel, DraftCost, Prediction, TargetCost
from forerun.sweep.oracle import Recording, replay, replay_all
from forerun.sweep.trial import drafting_of
from forerun.sweep.turns import run_conversations
from forerun.types import RoundCounts, Weights
from forerun.workloads.prompt import Prompt

# Requests run together while texts are recorded: the contract gives the same text, only sooner.
RECORDING_CONCURRENCY = 8


def record_texts(
    backend: Backend, traits: TargetTraits, prompts: Sequence[Prompt], params: SamplingParams
) -> list[Recording]:
    """Runs ``off`` over the prompts and their later turns."""
    concurrency = min(len(prompts), RECORDING_CONCURRENCY)
    done = run_conversations(backend, prompts, Drafting(), params, concurrency=concurrency)
    return [recording_of(request, traits, params) for request in done.record.requests]


def recording_of(request: RequestRecord, traits: TargetTraits, params: SamplingParams) -> Recording:
    """One finished request as text to replay."""
    sampler = KeyedSampler(
        params,
        seed=request.seed,
        choice=0,
        prompt=request.prompt_ids,
        eos_token_ids=traits.eos_token_ids,
        vocab_size=traits.vocab_size,
    )
    max_tokens = min(params.max_tokens, traits.max_context - len(request.prompt_ids))
    return Recording(request.prompt_id, request.prompt_ids, request.token_ids, max_tokens, sampler)


@dataclass(slots=True)
class Forecaster:
    """Predictions for one target. ``draft_costs`` is keyed by family: candidates that differ in N alone.

    ``refusals``: what the engine said of candidates that it wouldn't run when they were to be looked at.
    """

    backend: Backend
    target_cost: TargetCost
    draft_costs: Mapping[Candidate, DraftCost]
    warm_corpus: Sequence[Sequence[int]] = ()
    refusals: dict[Cell, str] = field(default_factory=dict)
    _runs: dict[tuple[Candidate, str, float], RoundCounts] = field(default_factory=dict)

    def predict(
        self,
        cells: Sequence[Cell],
        recordings: Sequence[Recording],
        prompts: Sequence[Prompt],
        params: SamplingParams,
    ) -> dict[Cell, Prediction]:
        """Predictions of one setting's cells; a cell is missing where no round was run, or the engine refused."""
        predictions = {}
        for family, members in _by_family(cells).items():
            try:
                counts = self._counts(family, members, recordings, prompts, params)
            except UnreachableError:
                raise
            except ForerunError as error:
                self.refusals |= dict.fromkeys(members, str(error))
                continue
            for cell, found in zip(members, counts, strict=True):
                prediction = self._predict(cell, family, found, recordings)
                if prediction is not None:
                    predictions[cell] = prediction
        return predictions

    def _counts(
        self,
        family: Candidate,
        cells: Sequence[Cell],
        recordings: Sequence[Recording],
        prompts: Sequence[Prompt],
        params: SamplingParams,
    ) -> list[RoundCounts]:
        draftings = [drafting_of(cell.candidate) for cell in cells]
        if find_method(family.method).info.weights is Weights.NONE:
            per_recording = [replay_all(lambda: self._new_drafter(family), one, draftings) for one in recordings]
            return [sum(column, RoundCounts()) for column in zip(*per_recording, strict=True)]
        largest = max((cell.candidate for cell in cells), key=lambda candidate: candidate.num_speculative_tokens)
        key = (largest, cells[0].workload, cells[0].temperature)
        if key not in self._runs:
            done = run_conversations(
                self.backend,
                prompts,
                drafting_of(largest),
                params,
                concurrency=min(len(prompts), RECORDING_CONCURRENCY),
                drafter=largest.drafter,
            )
            self._runs[key] = sum((request.counts for request in done.record.requests), RoundCounts())
        return [shortened(self._runs[key], drafting.num_speculative_tokens) for drafting in draftings]

    def expect(self, candidate: Candidate, recording: Recording) -> RoundCounts | None:
        """Counts that a cold run of a retrieval method must have on this text; ``None`` for methods with weights."""
        if find_method(candidate.method).info.weights is not Weights.NONE:
            return None
        return replay(lambda: self._new_drafter(candidate), recording, drafting_of(candidate))

    def _new_drafter(self, candidate: Candidate) -> Drafter[Any]:
        probe = self.backend.probe
        assert probe is not None, "costs were measured through it"
        drafter = probe.new_drafter(drafting_of(candidate), candidate.drafter)
        ingest = getattr(drafter, "ingest", None)
        if self.warm_corpus and ingest is not None:
            ingest(self.warm_corpus)
        return drafter

    def _predict(
        self, cell: Cell, family: Candidate, counts: RoundCounts, recordings: Sequence[Recording]
    ) -> Prediction | None:
        model = CostModel(self.target_cost, self.draft_costs[family])
        lengths = [len(one.prompt) + len(one.output) / 2 for one in recordings]
        return model.predict(
            counts,
            cell.candidate.num_speculative_tokens,
            cell.concurrency,
            sum(lengths) / len(lengths),
            prefill_seconds=sum(self.target_cost.prefill_seconds(len(one.prompt)) for one in recordings),
            start_seconds=sum(model.draft.start_seconds(len(one.prompt)) for one in recordings),
        )


def shortened(counts: RoundCounts, num_speculative_tokens: int) -> RoundCounts:
    """Counts of the same rounds with drafts cut to N: what a serial drafter offers first doesn't depend on N.

    An estimate: with a smaller N the rounds begin elsewhere. A tree keeps its rows per depth.
    """
    positions = counts.positions[:num_speculative_tokens]
    accepted = sum(position.accepted for position in positions)
    all_depths = sum(position.proposed for position in counts.positions)
    kept_depths = sum(position.proposed for position in positions)
    return RoundCounts(
        counts.rounds,
        counts.rounds_without_draft,
        round(counts.drafted * kept_depths / all_depths) if all_depths else 0,
        accepted,
        counts.emitted - counts.accepted + accepted,
        positions,
    )


def _by_family(cells: Sequence[Cell]) -> dict[Candidate, list[Cell]]:
    families: dict[Candidate, list[Cell]] = {}
    for cell in cells:
        family = cell.candidate.family
        assert family is not None, "off is the other side of every cell"
        families.setdefault(family, []).append(cell)
    return families
