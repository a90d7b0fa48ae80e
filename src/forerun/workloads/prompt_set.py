"""What is done with a set of prompts: name it by a hash, split it, thin it out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from forerun.workloads.prompt import Prompt


@dataclass(frozen=True, slots=True)
class PromptSplit:
    """Two disjoint halves: one to choose a candidate on, one to measure the choice on."""

    choose: tuple[Prompt, ...]
    measure: tuple[Prompt, ...]


def split(prompts: Sequence[Prompt], seed: int) -> PromptSplit:
    """Halves that depend on ids and seed alone, not on order; ``measure`` gets the odd one. Each workload is halved."""
    choose: list[Prompt] = []
    measure: list[Prompt] = []
    by_workload: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_workload.setdefault(prompt.workload, []).append(prompt)
    for members in by_workload.values():
        ordered = _shuffled(members, seed)
        half = len(ordered) // 2
        choose += ordered[:half]
        measure += ordered[half:]
    return PromptSplit(tuple(choose), tuple(measure))


def sample(prompts: Sequence[Prompt], num_prompts: int, seed: int) -> tuple[Prompt, ...]:
    """At most ``num_prompts`` prompts; a larger sample with the same seed holds the smaller one."""
    return tuple(_shuffled(prompts, seed)[:num_prompts])


def prompt_set_hash(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of all that reaches the model, whatever the order of the prompts."""
    digest = hashlib.sha256()
    for prompt in sorted(prompts, key=lambda prompt: prompt.id):
        digest.update(json.dumps(prompt.as_dict(), sort_keys=True, ensure_ascii=False).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _shuffled(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    return sorted(prompts, key=lambda prompt: (hashlib.sha256(f"{seed}/{prompt.id}".encode()).digest(), prompt.id))
