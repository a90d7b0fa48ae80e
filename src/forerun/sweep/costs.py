"""C of a target and D of every family of candidates, measured through a backend's probe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forerun.backends.base import Backend, CostProbe
from forerun.engine.drafting import Drafting
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import Candidate, Cell
from forerun.sweep.cost_measuring import measure_draft, measure_target, rows_needed
from forerun.sweep.forecast import PREFILL_ROWS
from forerun.sweep.results import DraftCostTable, TargetCostTable
from forerun.sweep.trial import drafting_of
from forerun.types import Timings
from forerun.workloads.prompt import Prompt

NUM_REPEATS = 4


def measure_c(
    probe: CostProbe, target: str, cells: Sequence[Cell], contexts: Sequence[int], overhead: float
) -> TargetCostTable:
    """C on the rows that the cells' rounds take, and on a slice of prefill, over a few context lengths."""
    lengths = {drafting_of(cell.candidate).max_rows for cell in cells}
    points = rows_needed(lengths, {cell.concurrency for cell in cells})
    grid = [(rows, sequences, context) for context in contexts for rows, sequences in points]
    grid += [(PREFILL_ROWS, 1, context) for context in contexts]
    return TargetCostTable(target, measure_target(probe.run_pass, sorted(set(grid)), num_repeats=NUM_REPEATS), overhead)


def measure_d(
    probe: CostProbe, target: str, cells: Sequence[Cell], params: SamplingParams, text: Sequence[int]
) -> list[DraftCostTable]:
    """D of each family over its grid of N, drafting behind ``text``."""
    lengths: dict[Candidate, set[int]] = {}
    for cell in cells:
        family = cell.candidate.family
        assert family is not None, "off is the other side of every cell"
        lengths.setdefault(family, set()).add(cell.candidate.num_speculative_tokens)
    sizes = sorted({cell.concurrency for cell in cells})
    tables = []
    for family, grid in lengths.items():
        run: Callable[[int, int], None] = probe.draft_runner(drafting_of(family), params, family.drafter, text)
        points = [(n, size) for n in sorted(grid) for size in sizes]
        tables.append(DraftCostTable(target, family, measure_draft(run, points, num_repeats=NUM_REPEATS)))
    return tables


def measure_overhead(backend: Backend, prompt: Prompt, candidate: Candidate, params: SamplingParams) -> float:
    """Seconds per round that sampling and bookkeeping take beyond those of a plain step; never below 0.

    Doubles as the target's warm-up.
    """
    plain = backend.run([prompt], Drafting(), params, concurrency=1).requests[0]
    drafted = backend.run([prompt], drafting_of(candidate), params, concurrency=1, drafter=candidate.drafter).requests[
        0
    ]
    per_step = _beside(plain.timings) / max(plain.counts.rounds, 1)
    per_round = _beside(drafted.timings) / max(drafted.counts.rounds, 1)
    return max(0.0, per_round - per_step)


def _beside(timings: Timings) -> float:
    return timings.sample + timings.other
