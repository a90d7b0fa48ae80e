"""The sentences that every reader of a tune must see, whichever way it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forerun.report import wording
from forerun.sweep.results import Cell, CellResult, Inflation, TuneResult
from forerun.sweep.statistics import MIN_PAIRS, expected_false_findings


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Something without a measured ratio: how it ended and why, which methods and workloads, how many cells.

    A gap of the whole sweep has no workloads and no cells.
    """

    state: str
    reason: str
    methods: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    num_cells: int = 0

    @property
    def sentence(self) -> str:
        """``suffix: predicted only, 4 cells (code, prose): no time left.``"""
        cells = f", {wording.plural(self.num_cells, 'cell')} ({', '.join(self.workloads)})" if self.num_cells else ""
        return f"{', '.join(self.methods)}: {self.state}{cells}: {self.reason or 'no reason recorded'}."


def inflation_sentence(entry: Inflation, control_workloads: Sequence[str]) -> str:
    """How much repeated text would have flattered a method."""
    known = "predicted and measured" if entry.is_predicted else "measured"
    return (
        f"{entry.candidate.label} reaches {wording.ratio(entry.repeat_ratio)} on {wording.listing(control_workloads)} "
        f"and {wording.ratio(entry.ordinary_ratio)} on ordinary text (geometric mean of "
        f"{wording.plural(entry.num_workloads, 'workload')}, {known}): inflation {wording.number(entry.factor)}. "
        "Repeated text is in no verdict."
    )


def comparisons(result: TuneResult) -> str:
    """How many candidates were compared with plain decoding, and what chance alone would do with that many."""
    expected = expected_false_findings(result.num_comparisons)
    return (
        f"{wording.plural(result.num_comparisons, 'comparison')} with off, none corrected for their number: if all "
        f"were ties, chance alone would call about {expected:.1f} of them faster or slower."
    )


def pairs_sentence(result: TuneResult) -> str:
    """Pairs that count and pairs that don't."""
    counted = wording.plural(result.num_pairs, "pair")
    looping = sum(cell.num_looping_pairs for cell in result.cells)
    return (
        f"{counted} that count, {result.num_discarded_pairs} discarded for machine load, {looping} with looping output "
        f"(shown, in no verdict). An interval needs {MIN_PAIRS}."
    )


def unfinished_sentence(result: TuneResult) -> str:
    """That a run was out of time, and how it goes on."""
    what = wording.plural(result.num_unfinished, "part")
    verb = "is" if result.num_unfinished == 1 else "are"
    return f"out of time: {what} of it {verb} not done. The same command goes on with it."


def lossless_failures(result: TuneResult) -> list[str]:
    """One sentence per cell whose text changed with drafting."""
    return [
        f"{cell.cell.label} changed the text of {wording.plural(len(cell.differing_prompts), 'prompt')} "
        f"({', '.join(cell.differing_prompts)}); a lossless method must not, and it can't win."
        for cell in result.cells
        if cell.has_lossless_failure
    ]


def shortfalls(result: TuneResult) -> list[Shortfall]:
    """What could not be offered at all, then the cells without an interval, by how they ended and why."""
    found = [Shortfall(gap.state.value, gap.reason, (gap.what,)) for gap in result.gaps]
    members: dict[tuple[str, str], list[Cell]] = {}
    for cell in result.cells:
        if cell.interval is None and not cell.cell.candidate.is_off:
            members.setdefault(_ending(cell), []).append(cell.cell)
    for (state, reason), cells in members.items():
        methods = dict.fromkeys(cell.candidate.family_label for cell in cells)
        workloads = dict.fromkeys(cell.workload for cell in cells)
        found.append(Shortfall(state, reason, tuple(methods), tuple(workloads), len(cells)))
    return found


def _ending(cell: CellResult) -> tuple[str, str]:
    """State and reason; how many pairs were too few is the cell's own affair."""
    name = wording.outcome(cell)
    if name == "too few":
        return "too few pairs", f"an interval needs {MIN_PAIRS}"
    return ("predicted only" if name == "predicted" else name), cell.reason
