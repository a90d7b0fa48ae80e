"""Prompts of many lengths, beside and across the borders of blocks and tiles; some begin like the one before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

from forerun.models.tokenizer import Tokenizer
from forerun.workloads.catalog import load_workloads

Prompt = tuple[int, ...]

LENGTHS = (33, 8, 129, 17, 64, 200, 16, 100, 31, 48, 400, 65, 12, 80, 128, 24, 260, 40, 15, 56)
SHARED_EVERY = 5


def cut_prompts(sources: Sequence[Sequence[int]], num_prompts: int) -> list[Prompt]:
    """The beginnings of ``sources``, as long as ``LENGTHS`` says or as the source is.

    Every fifth prompt begins with two thirds of its predecessor.
    """
    prompts: list[Prompt] = []
    for index in range(num_prompts):
        length = LENGTHS[index % len(LENGTHS)]
        shared: Prompt = ()
        if index % SHARED_EVERY == SHARED_EVERY - 1:
            shared = prompts[-1][: 2 * len(prompts[-1]) // 3]
        prompts.append((*shared, *sources[index % len(sources)][: max(8, length - len(shared))]))
    return prompts


def shipped_texts(tokenizer: Tokenizer) -> list[list[int]]:
    """The texts of all workloads that ship with forerun, as tokens, one workload after the other in turn."""
    rounds = zip_longest(*(workload.prompts for workload in load_workloads()))
    return [tokenizer.encode(prompt.plain_text) for prompt in chain.from_iterable(rounds) if prompt is not None]
