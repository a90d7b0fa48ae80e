"""Names a curve of speed-up over N and picks the N to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from forerun.sweep.cells import Candidate, Setting
from forerun.sweep.results import CellResult, Curve, CurvePoint, CurveShape, Interval
from forerun.sweep.statistics import median_interval

# Predicted points have no interval: two that differ by less than this are not told apart.
PREDICTION_TOLERANCE: Final = 0.05


def curve(setting: Setting, family: Candidate, points: Iterable[CurvePoint]) -> Curve:
    """The named curve of one family. Raises ValueError without points or with one N twice."""
    ordered = tuple(sorted(points, key=lambda point: point.num_speculative_tokens))
    if not ordered or len({point.num_speculative_tokens for point in ordered}) < len(ordered):
        raise ValueError(f"a curve needs distinct N, found {[point.num_speculative_tokens for point in ordered]}")
    return Curve(setting, family, ordered, shape(ordered), smallest_on_plateau(ordered))


def shape(points: Sequence[CurvePoint]) -> CurveShape:
    """What the speed-up does over ascending N.

    Nothing above 1: a tie if any N can't be told from ``off``, else below 1 everywhere. Otherwise falling if the last
    N is clearly slower than the best, rising if only the last is on the plateau, and else a plateau.
    """
    if not any(_is_faster(point) for point in points):
        return CurveShape.TIE if any(point.high >= 1.0 for point in points) else CurveShape.BELOW_ONE
    best = _best(points)
    on_plateau = [_is_level_with(point, best, points) for point in points]
    if not on_plateau[-1]:
        return CurveShape.FALLING
    if len(points) > 1 and not any(on_plateau[:-1]):
        return CurveShape.RISING
    return CurveShape.PLATEAU


def smallest_on_plateau(points: Sequence[CurvePoint]) -> int | None:
    """The smallest N that beats ``off`` and can't be told from the best; ``None`` where none beats ``off``."""
    winners = [point for point in points if _is_faster(point)]
    if not winners:
        return None
    best = _best(winners)
    return min(point.num_speculative_tokens for point in winners if _is_level_with(point, best, winners))


def point_of(result: CellResult) -> CurvePoint | None:
    """A cell's point: measured where it has an interval, predicted where it has only that, ``None`` where neither."""
    n = result.cell.candidate.num_speculative_tokens
    if result.interval is not None:
        interval = result.interval
        return CurvePoint(n, interval.median, interval.low, interval.high, pair_ratios=result.pair_ratios)
    if result.predicted_ratio is not None:
        ratio = result.predicted_ratio
        return CurvePoint(
            n, ratio, ratio * (1 - PREDICTION_TOLERANCE), ratio * (1 + PREDICTION_TOLERANCE), is_predicted=True
        )
    return None


def curves(results: Iterable[CellResult]) -> tuple[Curve, ...]:
    """One curve per setting and family that has a point, in the order of the cells."""
    points: dict[tuple[Setting, Candidate], list[CurvePoint]] = {}
    for result in results:
        family, point = result.cell.candidate.family, point_of(result)
        if family is not None and point is not None:
            points.setdefault((result.cell.setting, family), []).append(point)
    return tuple(curve(setting, family, found) for (setting, family), found in points.items())


def _best(points: Sequence[CurvePoint]) -> CurvePoint:
    return max(points, key=lambda point: (point.ratio, -point.num_speculative_tokens))


def _is_faster(point: CurvePoint) -> bool:
    return point.low > 1.0


def _is_level_with(point: CurvePoint, best: CurvePoint, points: Sequence[CurvePoint]) -> bool:
    """A difference that can't be told from none, to the best point and to every other.

    The best median may be a noisy one, whose wide interval would excuse an N that a quieter point beats beyond doubt.
    """
    if any(_is_clearly_below(point, other) for other in points):
        return False
    return _compared(point, best) is not None or point.ratio >= best.low


def _is_clearly_below(point: CurvePoint, other: CurvePoint) -> bool:
    """By the prompts that both ran, where there are enough of them: prompts differ more than lengths do."""
    compared = _compared(point, other)
    return other.low > point.high if compared is None else compared.high < 1.0


def _compared(point: CurvePoint, other: CurvePoint) -> Interval | None:
    """The interval of one N over another, prompt by prompt; ``None`` where too few pairs are common."""
    others = dict(other.pair_ratios)
    return median_interval([ratio / others[index] for index, ratio in point.pair_ratios if index in others])
