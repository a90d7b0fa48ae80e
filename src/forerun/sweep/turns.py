"""Conversations: every turn is run, behind the model's own earlier answers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from forerun.backends.base import Backend, TrialRecord
from forerun.engine.drafting import Drafting
from forerun.sampling.params import SamplingParams
from forerun.workloads.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Conversations:
    """All turns that were run: first turns in order, then the turns behind them. A request for every prompt."""

    prompts: tuple[Prompt, ...]
    record: TrialRecord


def run_conversations(
    backend: Backend,
    prompts: Sequence[Prompt],
    drafting: Drafting,
    params: SamplingParams,
    *,
    concurrency: int,
    drafter: str = "",
    warm_corpus: Sequence[Sequence[int]] = (),
) -> Conversations:
    """``Backend.run`` turn by turn, each from a cold start; what an engine would remember lies in the prompt."""
    asked: list[Prompt] = []
    records: list[TrialRecord] = []
    # Every conversation under the id of its first turn.
    waiting = [(prompt.id, prompt) for prompt in prompts]
    for number in itertools.count(2):
        turn = [prompt for _, prompt in waiting]
        record = backend.run(turn, drafting, params, concurrency=concurrency, drafter=drafter, warm_corpus=warm_corpus)
        asked += turn
        records.append(record)
        waiting = [
            (id, prompt.after(request.text, f"{id}#{number}"))
            for (id, prompt), request in zip(waiting, record.requests, strict=True)
            if prompt.later_turns
        ]
        if not waiting:
            break
    return Conversations(
        tuple(asked),
        TrialRecord(
            tuple(request for record in records for request in record.requests),
            sum(record.seconds for record in records),
            max(record.peak_memory for record in records),
        ),
    )
