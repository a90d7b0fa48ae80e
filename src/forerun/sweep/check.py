"""What can be told about a plan before anything is measured or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forerun.backends.base import Backend
from forerun.errors import ForerunError
from forerun.sweep.cells import Candidate, Cell
from forerun.sweep.expand import expand
from forerun.sweep.plan import Plan
from forerun.sweep.results import Gap
from forerun.sweep.trial import drafting_of
from forerun.workloads.prompt import Prompt
from forerun.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan that can run: its cells in running order, what can't be offered, cells refused with the reason."""

    cells: tuple[Cell, ...]
    gaps: tuple[Gap, ...]
    refused: Mapping[Cell, str]


def check_plan(plan: Plan, workloads: Sequence[Workload]) -> tuple[tuple[Cell, ...], tuple[Gap, ...]]:
    """Cells and gaps; it needs no model. Raises ForerunError as ``expand`` does, and for a plan without cells."""
    cells, gaps = expand(plan, [workload.name for workload in workloads])
    if not cells:
        raise ForerunError(
            "at least one method with a candidate", "; ".join(str(gap.what) for gap in gaps) or "none", "name one"
        )
    return tuple(cells), tuple(gaps)


def check(
    plan: Plan,
    workloads: Sequence[Workload],
    backends: Mapping[str, Backend],
    warm_corpus: Mapping[str, Sequence[Sequence[int]]],
) -> Checked:
    """Raises ForerunError for what no engine here can run, for prompts that don't fit or that the warm corpus knows."""
    cells, gaps = check_plan(plan, workloads)
    refused = _refused(cells, backends)
    for target, backend in backends.items():
        _check_prompts(target, backend, workloads, warm_corpus.get(target, ()), plan.max_tokens)
    return Checked(cells, gaps, refused)


def _refused(cells: Sequence[Cell], backends: Mapping[str, Backend]) -> dict[Cell, str]:
    """Cells whose way of drafting their target can't run, and why.

    A drafter that fits one of several targets is no mistake. One that fits none is: raises ForerunError then.
    """
    refused: dict[Cell, str] = {}
    by_candidate: dict[Candidate, list[Cell]] = {}
    for cell in cells:
        by_candidate.setdefault(cell.candidate, []).append(cell)
    for candidate, members in by_candidate.items():
        errors: dict[str, ForerunError] = {}
        targets = dict.fromkeys(cell.target for cell in members)
        for target in targets:
            try:
                backends[target].check(drafting_of(candidate), candidate.drafter)
            except ForerunError as error:
                errors[target] = error
        if len(errors) == len(targets):
            raise next(iter(errors.values()))
        refused |= {cell: str(errors[cell.target]) for cell in members if cell.target in errors}
    return refused


def _check_prompts(
    target: str,
    backend: Backend,
    workloads: Sequence[Workload],
    warm_corpus: Sequence[Sequence[int]],
    max_tokens: int,
) -> None:
    """Raises ForerunError for prompts that don't fit, and for a warm corpus that holds their answers.

    A conversation has to fit with answers of ``max_tokens`` tokens in all its turns but the last.
    """
    known = [tuple(text) for text in warm_corpus]
    for prompt in (prompt for workload in workloads for prompt in workload.prompts):
        ids = tuple(backend.prompt_ids(prompt))
        longest = len(ids) + len(prompt.later_turns) * max_tokens
        if prompt.later_turns:
            longest += len(backend.prompt_ids(_last_turn(prompt))) - len(ids)
        if backend.probe is not None and longest + 2 > backend.probe.traits.max_context:
            turns = f" in {len(prompt.later_turns) + 1} turns" if prompt.later_turns else ""
            raise ForerunError(
                f"prompts that fit {target}'s context of {backend.probe.traits.max_context} tokens",
                f"{prompt.id} with {longest} tokens{turns}",
                "shorten it or leave it out",
            )
        if any(text[: len(ids)] == ids for text in known):
            raise ForerunError(
                "a warm corpus of other prompts than those to tune on",
                f"{prompt.id} in both",
                "take it out of one of the two",
            )


def _last_turn(prompt: Prompt) -> Prompt:
    """A conversation's last turn, behind answers of no length."""
    return _last_turn(prompt.after("", prompt.id)) if prompt.later_turns else prompt
