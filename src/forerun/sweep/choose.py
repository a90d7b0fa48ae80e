"""The verdict of each setting, and how much the control class flatters a method."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from forerun.sweep.cells import OFF, Candidate, Cell, CellState, Setting
from forerun.sweep.curve import point_of, smallest_on_plateau
from forerun.sweep.explain import explain_off, explain_pick
from forerun.sweep.results import CellResult, Inflation, WorkloadVerdict


def choose(results: Sequence[CellResult], control_workloads: Collection[str]) -> tuple[WorkloadVerdict, ...]:
    """One verdict per ordinary setting, in the order of the cells. Control workloads never enter one."""
    settings = dict.fromkeys(result.cell.setting for result in results)
    return tuple(
        verdict(setting, [result for result in results if result.cell.setting == setting])
        for setting in settings
        if setting.workload not in control_workloads
    )


def verdict(setting: Setting, results: Sequence[CellResult]) -> WorkloadVerdict:
    """What to run in a setting: a measured winner with the smallest N on its plateau, else ``off``.

    A candidate that changed a text can't win, however fast.
    """
    winners = [result for result in results if _has_won(result)]
    if not winners:
        is_tie = any(result.state is CellState.TIE and not result.has_lossless_failure for result in results)
        return WorkloadVerdict(setting, OFF, None, is_tie, explain_off(setting, results))
    best = max(winners, key=_ratio)
    family = [result for result in winners if result.cell.candidate.family == best.cell.candidate.family]
    points = [point for point in map(point_of, family) if point is not None]
    n = smallest_on_plateau(points)
    pick = next(result for result in family if result.cell.candidate.num_speculative_tokens == n)
    return WorkloadVerdict(
        setting, pick.cell.candidate, pick.interval, False, explain_pick(setting, pick, best, winners, results)
    )


def num_comparisons(results: Iterable[CellResult]) -> int:
    """How many candidates were compared with ``off``: each is a chance to be wrong."""
    return sum(result.interval is not None for result in results)


def inflation(results: Sequence[CellResult], control_workloads: Collection[str]) -> tuple[Inflation, ...]:
    """Per method, ratio on the control class over the geometric mean on ordinary workloads, for one same candidate.

    The candidate is the one with most measured cells, then most ordinary workloads, then the highest control ratio.
    Measured ratios (ties included: 1 is inside, the median is known) go before predicted ones.
    """
    controls = [result for result in results if result.cell.workload in control_workloads]
    found: dict[tuple[str, str, float, int], tuple[tuple[int, int, float], Inflation]] = {}
    for control in controls:
        cell = control.cell
        repeat = _known_ratio(control)
        ordinary = [result for result in results if _is_counterpart(result.cell, cell, control_workloads)]
        known = [(result, ratio) for result in ordinary if (ratio := _known_ratio(result)) is not None]
        if repeat is None or not known or cell.candidate.is_off:
            continue
        num_measured = sum(result.interval is not None for result in (control, *(result for result, _ in known)))
        mean = math.exp(sum(math.log(ratio) for _, ratio in known) / len(known))
        entry = Inflation(
            cell.target,
            cell.candidate,
            cell.temperature,
            cell.concurrency,
            repeat,
            mean,
            len(known),
            is_predicted=num_measured < len(known) + 1,
        )
        key = (cell.target, _method_key(cell.candidate), cell.temperature, cell.concurrency)
        rank = (num_measured, len(known), repeat)
        if key not in found or rank > found[key][0]:
            found[key] = (rank, entry)
    return tuple(entry for _, entry in found.values())


def _has_won(result: CellResult) -> bool:
    if result.interval is None or result.has_lossless_failure or result.cell.candidate.is_off:
        return False
    return result.state is CellState.MEASURED and result.interval.low > 1.0


def _ratio(result: CellResult) -> float:
    assert result.interval is not None
    return result.interval.median


def _known_ratio(result: CellResult) -> float | None:
    return result.interval.median if result.interval is not None else result.predicted_ratio


def _method_key(candidate: Candidate) -> str:
    return candidate.family_label


def _is_counterpart(cell: Cell, control: Cell, control_workloads: Collection[str]) -> bool:
    """Whether a cell is the control's candidate on an ordinary workload, all else equal."""
    if cell.workload in control_workloads:
        return False
    return (cell.target, cell.candidate, cell.temperature, cell.concurrency) == (
        control.target,
        control.candidate,
        control.temperature,
        control.concurrency,
    )
