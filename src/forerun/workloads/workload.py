"""A named set of prompts of one kind of text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forerun.workloads.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts of one kind. A control runs in every sweep, shows inflation and never enters a verdict."""

    name: str
    prompts: tuple[Prompt, ...]
    is_control: bool = False


def group_by_workload(prompts: Iterable[Prompt]) -> tuple[Workload, ...]:
    """One ordinary workload per name that the prompts carry, in order of first appearance."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.workload, []).append(prompt)
    return tuple(Workload(name, tuple(members)) for name, members in groups.items())
