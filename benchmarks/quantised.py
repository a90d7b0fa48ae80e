"""One model in several quantisations, and what is measured of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from benchmarks.pairs import Ratio, compare
from benchmarks.pool_types import logits
from benchmarks.prompts import prompt_ids
from forerun import ratios
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.engine.request import Request
from forerun.models.device import choose_kv_dtype
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.tokenizer import Tokenizer
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts
from forerun.workloads.catalog import load_workloads
from forerun.workloads.prompt import Prompt
from forerun.workloads.prompt_set import sample

TEMPERATURE = 0.8
DRAFTING = Drafting("suffix", 7)
MAX_PROMPT, CONCURRENCY, BLOCK = 256, 8, 16
PLAIN_TOKENS = 32


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A prompt and the reference's own continuation of it: ``tokens[num_prompt:]``."""

    tokens: tuple[int, ...]
    num_prompt: int


@dataclass(frozen=True, slots=True)
class Distance:
    """From the reference over ``num_positions``: mean KL in nats, and how often the likeliest token is the same."""

    mean_kl: float
    top1: float
    num_positions: int


@dataclass(frozen=True, slots=True)
class Answers:
    """Of one seed: share of answers that their checkers pass, and share of drafted tokens that were accepted."""

    pass_rate: float
    acceptance: float


class Quantised:
    """A model with weights in one dtype and keys and values in another, loaded when first needed."""

    def __init__(self, name: str, source: str, dtype: str, kv_dtype: str = "auto") -> None:
        self.name = name
        self.source, self.dtype, self.kv_dtype = source, dtype, kv_dtype

    @cached_property
    def loaded(self) -> LoadedTarget:
        """Raises ForerunError where the model doesn't have this dtype."""
        return load_target(self.source, dtype=self.dtype, device="cpu")

    def with_pool(self, name: str, kv_dtype: str) -> Quantised:
        """The same weights, held once, with other keys and values."""
        other = Quantised(name, self.source, self.dtype, kv_dtype)
        other.__dict__["loaded"] = self.loaded
        return other

    def engine(self, longest: int, drafting: Drafting | None = None) -> Engine:
        """Cold, with room for ``CONCURRENCY`` requests of ``longest`` tokens."""
        room = longest + DRAFTING.max_rows + 3 * BLOCK
        return Engine(
            self.loaded, drafting, cache_tokens=CONCURRENCY * room, kv_dtype=self.kv_dtype, reuses_prefixes=False
        )

    def continued(self, prompts: Sequence[tuple[int, ...]], max_tokens: int, seed: int) -> list[Request]:
        """Each prompt answered at ``TEMPERATURE`` with noise of its own, drafts by ``DRAFTING`` (the text has none)."""
        engine = self.engine(max(map(len, prompts)) + max_tokens, DRAFTING)
        params = SamplingParams(temperature=TEMPERATURE, max_tokens=max_tokens)
        requests: list[Request] = []
        for index, prompt in enumerate(prompts):
            requests += engine.submit(prompt, replace(params, seed=seed * 10_000 + index))
        while engine.has_work:
            engine.step()
        return requests


def checked_prompts(tokenizer: Tokenizer, num_prompts: int) -> list[tuple[Prompt, tuple[int, ...]]]:
    """So many shipped prompts with a checker that runs no code, workloads in turn, none longer than ``MAX_PROMPT``."""
    by_workload = []
    for workload in load_workloads():
        usable = [prompt for prompt in workload.prompts if prompt.checker and not prompt.checker.executes_output]
        encoded = ((prompt, prompt_ids(prompt, tokenizer)) for prompt in sample(usable, len(usable), seed=0))
        by_workload.append([(prompt, ids) for prompt, ids in encoded if len(ids) <= MAX_PROMPT])
    longest = max(map(len, by_workload))
    in_turn = [prompts[index] for index in range(longest) for prompts in by_workload if index < len(prompts)]
    return in_turn[:num_prompts]


def held_out(reference: Quantised, num_positions: int, max_tokens: int) -> list[HeldOut]:
    """Shipped prompts continued by the reference until there are so many positions, or no prompts left."""
    prompts = [ids for _, ids in checked_prompts(reference.loaded.tokenizer, 1000)]
    texts: list[HeldOut] = []
    for first in range(0, len(prompts), CONCURRENCY):
        if sum(len(text.tokens) - text.num_prompt for text in texts) >= num_positions:
            break
        some = prompts[first : first + CONCURRENCY]
        answers = reference.continued(some, max_tokens, seed=1)
        texts += [HeldOut((*ids, *answer.output), len(ids)) for ids, answer in zip(some, answers, strict=True)]
    return texts


def distances(reference: Quantised, others: Sequence[Quantised], texts: Sequence[HeldOut]) -> list[Distance]:
    """Of each of the others, over the continuations, the reference's laws computed once."""
    kl, same, num_positions = [0.0] * len(others), [0] * len(others), 0
    for text in texts:
        p = _laws(reference, text)
        num_positions += len(p)
        for index, other in enumerate(others):
            q = _laws(other, text)
            kl[index] += float((p.exp() * (p - q)).sum())
            same[index] += int((p.argmax(-1) == q.argmax(-1)).sum())
    return [Distance(one / num_positions, count / num_positions, num_positions) for one, count in zip(kl, same)]


def answers_of(model: Quantised, num_prompts: int, max_tokens: int, seeds: Sequence[int]) -> list[Answers]:
    """The checked workloads, once for each seed."""
    chosen = checked_prompts(model.loaded.tokenizer, num_prompts)
    found = []
    for seed in seeds:
        requests = model.continued([ids for _, ids in chosen], max_tokens, seed)
        results = [prompt.check(request.watcher.text) for (prompt, _), request in zip(chosen, requests, strict=True)]
        num_passed = sum(result.passed for result in results if result is not None)
        counts = sum((request.counts for request in requests), RoundCounts())
        found.append(Answers(num_passed / len(chosen), ratios.acceptance_rate(counts) or 0.0))
    return found


def speed(model: Quantised, beside: Quantised, num_pairs: int) -> Ratio:
    """Seconds of ``beside`` over seconds of ``model`` for plain decoding of one request: the ratio of their speeds."""
    return compare(_plain_decoding(beside), _plain_decoding(model), num_pairs)


def _plain_decoding(model: Quantised) -> Callable[[], object]:
    prompt = [7 + 5 * index for index in range(16)]
    engine = model.engine(len(prompt) + PLAIN_TOKENS)
    params = SamplingParams(max_tokens=PLAIN_TOKENS, ignore_eos=True)
    return lambda: engine.generate([prompt], params)


def _laws(model: Quantised, text: HeldOut) -> Tensor:
    """Log-probabilities float64 [continued tokens, vocabulary], each of the row before its token."""
    target = model.loaded.target
    kv_dtype = choose_kv_dtype(model.kv_dtype) or target.new_store(0).dtype
    rows = torch.cat(list(logits(target, list(text.tokens), kv_dtype)))
    return rows[text.num_prompt - 1 : -1].double().log_softmax(-1)
