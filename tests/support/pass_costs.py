"""Pass costs of a made-up machine."""

from __future__ import annotations

from collections.abc import Callable

from forerun.conditions import Artifact
from forerun.engine.costs.cost_point import CostPoint
from forerun.engine.costs.measure_passes import PASS_ROWS, SLICE_ROWS
from forerun.engine.costs.pass_costs import PassCostIdentity, PassCosts

IDENTITY = PassCostIdentity(Artifact("toy"), "float32", "auto", "toy", "1 x toy", 1, "none")


def costs_of(
    seconds: Callable[[int], float],
    slice_seconds: Callable[[int], float] | None = None,
    *,
    measured_at: str = "2026-01-01T00:00:00+00:00",
) -> PassCosts:
    """One sequence at one context; seconds by rows."""
    slice_seconds = slice_seconds or seconds
    return PassCosts(
        IDENTITY,
        measured_at,
        tuple(CostPoint(rows, 1, 128, seconds(rows)) for rows in PASS_ROWS),
        tuple(CostPoint(rows, 1, 128, slice_seconds(rows)) for rows in SLICE_ROWS),
    )


def tiles_of_16(rows: int) -> float:
    """A kernel that works in tiles of 16 rows, each as dear as the first."""
    return 0.01 * -(-rows // 16)


def streaming(rows: int) -> float:
    """A kernel that waits for memory alone up to 32 rows, then computes."""
    return 0.01 * max(1.0, rows / 32)
