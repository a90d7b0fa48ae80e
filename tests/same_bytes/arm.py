"""All prompts under one setting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forerun.engine.engine import Engine
from forerun.engine.request import Completion
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts
from same_bytes.drafts import EngineParts, parts_of
from same_bytes.prompts import Prompt
from same_bytes.setting import Setting
from same_bytes.spoken import Spoken
from same_bytes.subject import Subject
from same_bytes.witness import Witness
from support.scripted_drafters import Texts
from support.serving import serve, threads

BLOCK_SIZE = 16
TOP_P = 0.95
NUM_TOP = 5


@dataclass(frozen=True)
class Arm:
    """What every prompt was continued with, and the proof that the setting was one: drafts, hits, seconds."""

    spoken: tuple[Spoken, ...]
    counts: RoundCounts
    num_hit_tokens: int
    seconds: float


def run_arm(
    subject: Subject, setting: Setting, prompts: Sequence[Prompt], num_tokens: int, known: Sequence[Spoken] = ()
) -> Arm:
    """Continues each of ``prompts`` by ``num_tokens``. ``known`` is what the reference said, for scripted drafts."""
    start = time.perf_counter()
    params = params_of(setting.temperature, num_tokens)
    target = subject.target(setting.numbers)
    witness = Witness(target) if subject.records_logits else None
    parts = parts_of(setting.drafts, setting.n, subject.model(setting.numbers), _texts(prompts, known))
    with threads(setting.threads):
        engine = Engine(
            witness or target,
            parts.drafting,
            draft_model=parts.draft_model,
            drafter=parts.drafter,
            kv_dtype=setting.numbers.kv,
            cache_tokens=_cache_tokens(setting, parts, prompts, num_tokens),
            block_size=BLOCK_SIZE,
            row_budget=max(1 + parts.drafting.max_rows, setting.row_budget),
            reuses_prefixes=setting.hits_prefixes,
        )
        if setting.hits_prefixes:
            engine.generate(prompts, replace(params, max_tokens=1))
        completions = serve(engine, prompts, params, setting.serving)
    assert engine.cache.pool.num_held == 0, "blocks are held after the last request"
    spoken = tuple(_spoken(*pair, witness) for pair in zip(prompts, completions, strict=True))
    counts = sum((completion.counts for completion in completions), RoundCounts())
    num_hit_tokens = sum(completion.num_cached_tokens for completion in completions)
    return Arm(spoken, counts, num_hit_tokens, time.perf_counter() - start)


def params_of(temperature: float, num_tokens: int) -> SamplingParams:
    """One seed for everything: texts differ by what was read."""
    return SamplingParams(
        temperature=temperature,
        top_p=TOP_P if temperature else 1.0,
        seed=3,
        max_tokens=num_tokens,
        ignore_eos=True,
        logprobs=NUM_TOP,
    )


def _cache_tokens(setting: Setting, parts: EngineParts, prompts: Sequence[Prompt], num_tokens: int) -> int:
    """Cold: just enough for a batch, so that blocks are handed on all the time. With hits: every prompt stays."""
    longest = max(len(prompt) for prompt in prompts) + num_tokens + parts.drafting.max_rows + 2 * BLOCK_SIZE
    kept = sum(len(prompt) + num_tokens + BLOCK_SIZE for prompt in prompts) if setting.hits_prefixes else 0
    return setting.batch * longest + kept


def _texts(prompts: Sequence[Prompt], known: Sequence[Spoken]) -> Texts:
    """What follows each prompt, and what follows the prompt with any beginning of its continuation."""
    texts: Texts = {}
    for prompt, spoken in zip(prompts, known, strict=bool(known)):
        ids = spoken.token_ids
        texts |= {((*prompt, *ids[:cut]), 0): ids[cut:] for cut in range(len(ids))}
    return texts


def _spoken(prompt: Prompt, completion: Completion, witness: Witness | None) -> Spoken:
    if witness is None:
        return Spoken.of(completion)
    text = (*prompt, *completion.token_ids)
    ends = range(len(prompt), len(text))
    return Spoken.of(completion, [witness.digest_after(text[:end]) for end in ends])
