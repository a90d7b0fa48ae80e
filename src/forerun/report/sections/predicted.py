"""Does the cost model explain what was measured? Predicted against measured, and where break-even lies."""

from __future__ import annotations

from collections.abc import Sequence

from forerun.report import wording
from forerun.report.axis import Axis
from forerun.report.families import families
from forerun.report.markup import Html, paragraph, section, table
from forerun.report.plot import Plot, caption_line, legend, line
from forerun.sweep.results import Candidate, CellResult, CellState, TuneResult
from forerun.sweep.statistics import median


def render(result: TuneResult) -> Html:
    """A scatter of all cells that have both, and a table with break-even beside what was reached."""
    cells = [cell for cell in result.cells if cell.interval is not None and cell.predicted_ratio is not None]
    if not cells:
        words = "No cell has both a prediction and an interval."
        return section("predicted", "Predicted and measured", paragraph(words))
    known = families(result)
    shown = {cell.cell.candidate.family for cell in cells}
    return section(
        "predicted",
        "Predicted and measured",
        paragraph(
            "The prediction uses only C, D and the counts of accepted tokens. Where it holds, these explain the speed; "
            "where a point is far from the diagonal, something else decides."
        ),
        legend(
            [(known.index(family), family.family_label) for family in known if family in shown],
            "bar without a point: a tie",
            "diagonal: prediction holds",
        ),
        _plot(cells, known).html([caption_line(_error(cells))], _table(cells)),
    )


def _plot(cells: Sequence[CellResult], known: Sequence[Candidate]) -> Plot:
    measured = [end for cell in cells if cell.interval for end in (cell.interval.low, cell.interval.high)]
    values = measured + [cell.predicted_ratio for cell in cells if cell.predicted_ratio is not None]
    plot = Plot(
        "predicted-plot",
        f"Measured against predicted speed. {_error(cells)}",
        Axis.of_ratios("predicted speed against off", values),
        Axis.of_ratios("measured speed against off", values),
        height=420,
    )
    plot.add_diagonal(min(values), max(values))
    for series, family in enumerate(known):
        members = [cell for cell in cells if cell.cell.candidate.family == family]
        points = [cell for cell in members if cell.state is CellState.MEASURED]
        ties = [cell for cell in members if cell.state is CellState.TIE]
        if points:
            plot.add(_points(points, series))
        if ties:
            plot.add(_bars(ties, series))
    return plot


def _points(cells: Sequence[CellResult], series: int) -> object:
    known = [(cell, cell.interval) for cell in cells if cell.interval is not None]
    return line(
        "measured",
        [cell.predicted_ratio for cell, _ in known],
        [interval.median for _, interval in known],
        series=series,
        mode="markers",
        hover=[
            f"{cell.cell.label}: measured {wording.ratio(interval.median)} ({wording.span(interval)}), "
            f"predicted {wording.ratio(cell.predicted_ratio)}"
            for cell, interval in known
        ],
        errors=(
            [interval.median - interval.low for _, interval in known],
            [interval.high - interval.median for _, interval in known],
        ),
    )


def _bars(cells: Sequence[CellResult], series: int) -> object:
    """Ties have no ratio, only an interval: a bar without a point."""
    x: list[float | None] = []
    y: list[float | None] = []
    hover = []
    for cell in cells:
        assert cell.interval is not None
        x += [cell.predicted_ratio, cell.predicted_ratio, None]
        y += [cell.interval.low, cell.interval.high, None]
        hover += [f"{cell.cell.label}: a tie ({wording.span(cell.interval)})"] * 2 + [""]
    return line("tie", x, y, series=series, mode="lines", hover=hover)


def _error(cells: Sequence[CellResult]) -> str:
    errors = [
        abs(cell.predicted_ratio / cell.interval.median - 1)
        for cell in cells
        if cell.interval is not None and cell.predicted_ratio is not None and cell.state is CellState.MEASURED
    ]
    if not errors:
        return "All of these cells are ties."
    inside = sum(_is_inside(cell) for cell in cells)
    return (
        f"Half of {wording.plural(len(errors), 'measured cell')} are predicted to within "
        f"{wording.percent(median(errors))}; {inside} of {wording.plural(len(cells), 'prediction')} lie inside the "
        "measured interval."
    )


def _is_inside(cell: CellResult) -> bool:
    if cell.interval is None or cell.predicted_ratio is None:
        return False
    return cell.interval.low <= cell.predicted_ratio <= cell.interval.high


def _table(cells: Sequence[CellResult]) -> Html:
    head = [
        "Cell", "Predicted", "Measured", "Interval", "Pass, plain steps", "Draft, plain steps", "Tokens per round",
        "Break-even", "Acceptance", "Break-even",
    ]  # fmt: skip
    rows = []
    for cell in cells:
        assert cell.interval is not None
        figures = cell.figures
        rows.append(
            [
                cell.cell.label,
                wording.ratio(cell.predicted_ratio),
                wording.outcome(cell),
                wording.span(cell.interval),
                wording.number(cell.verify_steps),
                wording.number(cell.draft_steps),
                wording.number(figures.tokens_per_round if figures else None),
                wording.number(cell.break_even_tokens_per_round),
                wording.percent(figures.acceptance_rate if figures else None),
                wording.percent(cell.break_even_acceptance),
            ]
        )
    return table("Predicted and measured, with what would break even", head, rows)
