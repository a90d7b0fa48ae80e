"""The families of a tune: candidates that differ in N alone share a column of the map, a curve and a colour."""

from __future__ import annotations

from forerun.report.group import Group
from forerun.sweep.results import Candidate, TuneResult


def families(result: TuneResult) -> list[Candidate]:
    """Every family, in the order of the cells; its place is the number of its colour."""
    found = (cell.cell.candidate.family for cell in result.cells)
    return list(dict.fromkeys(family for family in found if family is not None))


def lengths(group: Group) -> dict[Candidate, list[int]]:
    """The N of each family that a group has cells for, ascending."""
    found: dict[Candidate, set[int]] = {}
    for standing in group.standings:
        for cell in standing.cells:
            family = cell.cell.candidate.family
            if family is not None:
                found.setdefault(family, set()).add(cell.cell.candidate.num_speculative_tokens)
    return {family: sorted(numbers) for family, numbers in found.items()}
