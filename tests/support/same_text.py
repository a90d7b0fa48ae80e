"""What plain decoding says, and whether drafting said the same, down to the bits of the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.engine.request import Completion
from forerun.models.base import Target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts
from support.recording_target import RecordingTarget
from support.serving import Serving, serve

Prompt = tuple[int, ...]
OFF = Drafting()


@dataclass(frozen=True)
class Said:
    """Completions in the order of the prompts, with the prompts and the logits that they were drawn from."""

    completions: list[Completion]
    prompts: list[Prompt]
    recorder: RecordingTarget

    @property
    def counts(self) -> RoundCounts:
        return sum((completion.counts for completion in self.completions), RoundCounts())


def say(
    model: Target | LoadedTarget,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    drafting: Drafting = OFF,
    *,
    hits_prefixes: bool = False,
    row_budget: int = 256,
    serving: Serving | None = None,
    **engine: Any,
) -> Said:
    """All prompts in one batch, or as ``serving`` says.

    ``hits_prefixes``: once more on the same engine, on the prefixes that it published.
    """
    if isinstance(model, LoadedTarget):
        recorder = RecordingTarget(model.target)
        recorded: Target | LoadedTarget = LoadedTarget(recorder, model.tokenizer, model.artifact)
    else:
        recorded = recorder = RecordingTarget(model)
    made = Engine(recorded, drafting, reuses_prefixes=hits_prefixes, row_budget=row_budget, **engine)
    if hits_prefixes:
        made.generate(prompts, params)
    completions = made.generate(prompts, params) if serving is None else serve(made, prompts, params, serving)
    if hits_prefixes:
        assert any(completion.num_cached_tokens for completion in completions), "no prompt hit a prefix"
    assert made.cache.pool.num_held == 0
    return Said(completions, [prompt for prompt in prompts for _ in range(params.n)], recorder)


def say_plainly(
    model: Target | LoadedTarget, prompts: Sequence[Prompt], params: SamplingParams, **engine: Any
) -> list[Said]:
    """The yardstick: each prompt alone, nothing drafted, nothing shared."""
    return [say(model, [prompt], params, **engine) for prompt in prompts]


def without_logprobs(said: Said) -> Said:
    """The same, as if no log-probabilities had been asked for."""
    return replace(said, completions=[replace(completion, logprobs=()) for completion in said.completions])


def assert_same(found: Said, plain: Sequence[Said], *, bitwise: bool = True) -> None:
    """``found`` says what ``plain`` says, prompt by prompt: text, ids, reason, logprobs, and bits where asked."""
    expected = [(said, index) for said in plain for index in range(len(said.completions))]
    assert len(found.completions) == len(expected)
    for completion, prompt, (said, index) in zip(found.completions, found.prompts, expected, strict=True):
        other = said.completions[index]
        assert said.prompts[index] == prompt
        assert completion.token_ids == other.token_ids
        assert (completion.text, completion.finish_reason) == (other.text, other.finish_reason)
        assert (completion.seed, completion.choice) == (other.seed, other.choice)
        if bitwise:
            assert completion.logprobs == other.logprobs
            for length in range(len(completion.token_ids)):
                seen = (*prompt, *completion.token_ids[:length])
                assert torch.equal(found.recorder.said_after(seen), said.recorder.said_after(seen)), (
                    f"other logits after {len(prompt)} + {length} tokens"
                )
