"""Speed-up over N: one small figure for each setting, a line for each family."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from forerun.report import wording
from forerun.report.axis import Axis
from forerun.report.families import families
from forerun.report.markup import Html, paragraph, section, table
from forerun.report.plot import Plot, caption_line, legend, line, small_multiples
from forerun.sweep.cells import short_name
from forerun.sweep.results import Candidate, Cell, Curve, CurvePoint, Setting, TuneResult


class _Kind(enum.Enum):
    """How a point is drawn: a tie has an interval and no mark of its own."""

    MEASURED = "measured"
    TIE = "tie"
    PREDICTED = "predicted"

    @classmethod
    def of(cls, point: CurvePoint) -> _Kind:
        """The kind of a point."""
        if point.is_predicted:
            return cls.PREDICTED
        return cls.TIE if point.low <= 1.0 <= point.high else cls.MEASURED


def render(result: TuneResult) -> Html:
    """All curves; predicted points are hollow and have no interval."""
    known = families(result)
    settings = list(dict.fromkeys(curve.setting for curve in result.curves))
    if not settings:
        return section("curves", "Speed-up over N", paragraph("No method has a figure for any N."))
    figures = [
        _figure(number, setting, [curve for curve in result.curves if curve.setting == setting], known, result)
        for number, setting in enumerate(settings)
    ]
    shown = {curve.family for curve in result.curves}
    return section(
        "curves",
        "Speed-up over N",
        paragraph(
            "More drafted tokens can commit more, but later ones are accepted less and rejected ones still cost. A "
            "curve rises, flattens and falls; the pick is the smallest N that can't be told from the best."
        ),
        legend(
            [(known.index(family), family.family_label) for family in known if family in shown],
            "filled: measured, bars are intervals",
            "bar without a point: a tie",
            "hollow: predicted",
            "line: off",
        ),
        small_multiples(figures),
    )


def _figure(
    number: int, setting: Setting, curves: Sequence[Curve], known: Sequence[Candidate], result: TuneResult
) -> Html:
    points = [point for curve in curves for point in curve.points]
    ends = [point.ratio for point in points]
    ends += [end for point in points if not point.is_predicted for end in (point.low, point.high)]
    plot = Plot(
        f"curve-{number}",
        f"Speed against off over N, {setting.label}. {' '.join(_words(curve) for curve in curves)}",
        Axis.of_counts("N, drafted tokens a round", (point.num_speculative_tokens for point in points)),
        Axis.of_ratios("speed against off", ends),
        height=240,
    )
    plot.add_level(1.0)
    for curve in curves:
        series = known.index(curve.family)
        whole = [(point.num_speculative_tokens, point.ratio) for point in curve.points]
        plot.add(
            line(
                curve.family.family_label,
                [n for n, _ in whole],
                [ratio for _, ratio in whole],
                series=series,
                mode="lines",
                is_dashed=all(point.is_predicted for point in curve.points),
            )
        )
        for kind in _Kind:
            points = [point for point in curve.points if _Kind.of(point) is kind]
            if points:
                plot.add(_markers(curve, kind, points, series, result))
    return plot.html(
        [caption_line(_words(curve)) for curve in curves],
        table(
            f"Speed against off over N, {setting.label}",
            ["Method", "N", "Speed", "From", "To", "Pairs"],
            [row for curve in curves for row in _rows(curve, result)],
        ),
        title=f"{short_name(setting.target)}: {setting.label}"
        if len({one.target for one in result.settings}) > 1
        else setting.label,
    )


def _markers(curve: Curve, kind: _Kind, points: Sequence[CurvePoint], series: int, result: TuneResult) -> object:
    errors = [point.ratio - point.low for point in points], [point.high - point.ratio for point in points]
    return line(
        curve.family.family_label,
        [point.num_speculative_tokens for point in points],
        [point.ratio for point in points],
        series=series,
        hover=[_hover(curve, point, result) for point in points],
        is_open=kind is _Kind.PREDICTED,
        is_hidden=kind is _Kind.TIE,
        errors=None if kind is _Kind.PREDICTED else errors,
        mode="markers",
    )


def _hover(curve: Curve, point: CurvePoint, result: TuneResult) -> str:
    start = f"{curve.family.family_label} N={point.num_speculative_tokens}: {_said(point)}"
    if point.is_predicted:
        return f"{start}, predicted"
    return f"{start} ({point.low:.2f} to {point.high:.2f}, {_num_pairs(curve, point, result)} pairs)"


def _rows(curve: Curve, result: TuneResult) -> list[list[Html | str]]:
    return [
        [
            curve.family.family_label,
            str(point.num_speculative_tokens),
            _said(point),
            *(["predicted", ""] if point.is_predicted else [f"{point.low:.2f}", f"{point.high:.2f}"]),
            wording.ABSENT if point.is_predicted else str(_num_pairs(curve, point, result)),
        ]
        for point in curve.points
    ]


def _said(point: CurvePoint) -> str:
    return "tie" if _Kind.of(point) is _Kind.TIE else wording.ratio(point.ratio)


def _num_pairs(curve: Curve, point: CurvePoint, result: TuneResult) -> int:
    family = curve.family
    candidate = Candidate(family.method, point.num_speculative_tokens, family.is_tree, family.knobs, family.drafter)
    cell = result.find(Cell.of(curve.setting, candidate))
    return cell.num_pairs if cell is not None else 0


def _words(curve: Curve) -> str:
    pick = f"N={curve.pick} is enough" if curve.pick is not None else "no N beats off"
    known = "" if any(not point.is_predicted for point in curve.points) else " (predicted)"
    return f"{curve.family.family_label}: {curve.shape.value}{known}, {pick}."
