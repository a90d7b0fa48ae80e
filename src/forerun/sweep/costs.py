"""C of a target and D of every family of candidates, measured through a backend's probe."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from forerun.backends.base import Backend, CostProbe, RequestRecord
from forerun.engine.costs.timing import Clock
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import OFF, Candidate, Cell
from forerun.sweep.cost_measuring import measure_draft, measure_slices, measure_start, measure_target, rows_needed
from forerun.sweep.results import CostPoint, DraftCostTable, TargetCostTable
from forerun.sweep.trial import drafting_of
from forerun.workloads.prompt import Prompt

NUM_REPEATS = 4
# Rows of the slices that are timed, besides the engine's own: prompts and their ends are shorter.
SLICE_ROWS = (16, 64)


def measure_c(
    probe: CostProbe,
    target: str,
    cells: Sequence[Cell],
    contexts: Sequence[int],
    overhead: float,
    *,
    clock: Clock = time.perf_counter,
) -> TargetCostTable:
    """C on the rows that the cells' rounds take, and of slices of prefill, over a few context lengths.

    Points that share sequences and context take turns with each other alone: a probe sets such a bed up in the
    warm-up turn, which isn't timed, and a round is only ever compared with a plain step in the same bed.
    """
    lengths = {drafting_of(cell.candidate).max_rows for cell in cells}
    points = rows_needed(lengths, {cell.concurrency for cell in cells})
    measured: list[CostPoint] = []
    for sequences in sorted({sequences for _, sequences in points}):
        rows = sorted(rows for rows, size in points if size == sequences)
        for context in contexts:
            grid = [(count, sequences, context) for count in rows]
            measured += measure_target(probe.run_pass, grid, num_repeats=NUM_REPEATS, clock=clock)
    room = probe.traits.max_context
    largest = min(probe.prefill_rows, room)
    rows = sorted({*(count for count in SLICE_ROWS if count < largest), largest})
    slices = measure_slices(probe.run_slice, rows, sorted({0, min(max(contexts), room - largest)}), clock=clock)
    return TargetCostTable(target, tuple(measured), overhead, slices, largest)


def families_of(cells: Sequence[Cell]) -> dict[Candidate, list[int]]:
    """Every family of candidates with its N, ascending, in the order of the cells."""
    lengths: dict[Candidate, set[int]] = {}
    for cell in cells:
        family = cell.candidate.family
        assert family is not None, "off is the other side of every cell"
        lengths.setdefault(family, set()).add(cell.candidate.num_speculative_tokens)
    return {family: sorted(found) for family, found in lengths.items()}


def measure_d(
    probe: CostProbe,
    target: str,
    family: Candidate,
    grid: Sequence[tuple[int, int]],
    params: SamplingParams,
    text: Sequence[int],
    *,
    clock: Clock = time.perf_counter,
) -> DraftCostTable:
    """D of one family over (N, sequences), and what it does once with a prompt, drafting behind ``text``."""
    drafting = drafting_of(family)
    drafts = measure_draft(
        probe.draft_runner(drafting, params, family.drafter, text), grid, num_repeats=NUM_REPEATS, clock=clock
    )
    start = probe.start_runner(drafting, params, family.drafter, text)
    return DraftCostTable(target, family, drafts, measure_start(start, len(text), clock=clock))


def measure_overhead(backend: Backend, prompt: Prompt, candidate: Candidate, params: SamplingParams) -> float:
    """Seconds per round that sampling and bookkeeping take beyond those of a plain step; never below 0.

    The prefill's part is measured alone and taken off: it would weigh more on whoever needs fewer rounds. What runs
    first warms the target up and counts nowhere.
    """

    def run(candidate: Candidate, max_tokens: int) -> RequestRecord:
        limited = replace(params, max_tokens=max_tokens)
        return backend.run(
            [prompt], drafting_of(candidate), limited, concurrency=1, drafter=candidate.drafter
        ).requests[0]

    for warming in (OFF, candidate):
        run(warming, params.max_tokens)
    prefill = _beside(run(OFF, 1))
    plain, drafted = run(OFF, params.max_tokens), run(candidate, params.max_tokens)
    return max(0.0, _per_round(drafted, prefill) - _per_round(plain, prefill))


def most_rows(cells: Sequence[Cell]) -> Candidate:
    """The candidate to measure overhead on: the longest chain, or the largest tree where all are trees.

    A longer draft is more to lay out and to check, so that a shorter one is never promised too much.
    """
    return max(
        (cell.candidate for cell in cells),
        key=lambda candidate: (not candidate.is_tree, drafting_of(candidate).max_rows),
    )


def _beside(request: RequestRecord) -> float:
    return request.timings.sample + request.timings.other


def _per_round(request: RequestRecord, prefill: float) -> float:
    return (_beside(request) - prefill) / max(request.counts.rounds, 1)
