"""C, what a target pass costs by its rows, and D, what drafting costs by N."""

from __future__ import annotations

from collections.abc import Sequence

from forerun.report import wording
from forerun.report.axis import Axis
from forerun.report.families import families
from forerun.report.markup import Html, paragraph, section, table
from forerun.report.plot import Plot, caption_line, legend, line, small_multiples
from forerun.sweep.cells import short_name
from forerun.sweep.results import Candidate, CostPoint, DraftCostPoint, DraftCostTable, TargetCostTable, TuneResult


def render(result: TuneResult) -> Html:
    """C per target and D per target, side by side."""
    if not result.target_costs and not result.draft_costs:
        return section("costs", "What a round costs", paragraph("Neither C nor D was measured."))
    known = families(result)
    targets = list(dict.fromkeys(costs.target for costs in result.draft_costs))
    figures = [_target_figure(number, costs, len(known)) for number, costs in enumerate(result.target_costs)]
    for number, target in enumerate(targets):
        tables = [costs for costs in result.draft_costs if costs.target == target]
        figures.append(_draft_figure(number, target, tables, known))
    return section(
        "costs",
        "What a round costs",
        paragraph(
            "C is the time of a target pass by its number of rows. Where it is flat, verifying a draft is nearly "
            "free. D is the time to draft N tokens. Drafting pays when a round yields more tokens than it costs plain "
            "steps: tokens per round > (C with the draft's rows + D + overhead) / C of a plain step."
        ),
        small_multiples(figures),
    )


def _target_figure(number: int, costs: TargetCostTable, first_series: int) -> Html:
    """``first_series``: the first colour that no family has."""
    lines: dict[tuple[int, int], list[CostPoint]] = {}
    for point in costs.points:
        lines.setdefault((point.sequences, point.context), []).append(point)
    plot = Plot(
        f"target-cost-{number}",
        f"C of {short_name(costs.target)}: milliseconds of a target pass by rows",
        Axis("rows in the pass", is_log=True, ticks=tuple(sorted({point.rows for point in costs.points}))),
        # A flat curve must look flat.
        Axis("ms a pass", is_from_zero=True),
    )
    for series, ((sequences, context), points) in enumerate(lines.items(), start=first_series):
        points.sort(key=lambda point: point.rows)
        name = _grid_name(sequences, context)
        plot.add(
            line(
                name,
                [point.rows for point in points],
                [point.seconds * 1000 for point in points],
                series=series,
                hover=[f"{name}: {point.rows} rows, {wording.duration(point.seconds)}" for point in points],
            )
        )
    key = legend((series, _grid_name(*grid)) for series, grid in enumerate(lines, start=first_series))
    rows = [
        [str(point.rows), str(point.sequences), f"{point.context:,}", wording.duration(point.seconds)]
        for point in costs.points
    ]
    return plot.html(
        [key, caption_line(f"Overhead of a round beside draft and pass: {wording.duration(costs.overhead)}.")],
        table(
            f"C of {short_name(costs.target)}",
            ["Rows", "Sequences", "Context, tokens", "Time of a pass"],
            rows,
            num_texts=0,
        ),
        title=f"C, {short_name(costs.target)}",
    )


def _draft_figure(number: int, target: str, tables: Sequence[DraftCostTable], known: Sequence[Candidate]) -> Html:
    # Retrieval drafts in microseconds, a second model in milliseconds: only a logarithmic axis shows both.
    plot = Plot(
        f"draft-cost-{number}",
        f"D for {target}: milliseconds to draft N tokens, by method",
        Axis.of_counts(
            "N, drafted tokens", (point.num_speculative_tokens for costs in tables for point in costs.points)
        ),
        Axis("ms a draft", is_log=True),
    )
    shown = []
    for costs in tables:
        series = known.index(costs.family) if costs.family in known else len(known)
        shown.append((series, costs.family.family_label))
        lines: dict[int, list[DraftCostPoint]] = {}
        for point in costs.points:
            lines.setdefault(point.sequences, []).append(point)
        for sequences, points in lines.items():
            points.sort(key=lambda point: point.num_speculative_tokens)
            name = f"{costs.family.family_label}, {wording.plural(sequences, 'sequence')}"
            plot.add(
                line(
                    name,
                    [point.num_speculative_tokens for point in points],
                    [point.seconds * 1000 for point in points],
                    series=series,
                    hover=[
                        f"{name}: N={point.num_speculative_tokens}, {wording.duration(point.seconds)}"
                        for point in points
                    ],
                )
            )
    rows = [
        [
            costs.family.family_label,
            str(point.num_speculative_tokens),
            str(point.sequences),
            wording.duration(point.seconds),
        ]
        for costs in tables
        for point in costs.points
    ]
    return plot.html(
        [legend(dict.fromkeys(shown)), caption_line("Logarithmic: each line up is ten times as much.")],
        table(f"D for {target}", ["Method", "N", "Sequences", "Time to draft"], rows),
        title=f"D, {target}",
    )


def _grid_name(sequences: int, context: int) -> str:
    return f"{wording.plural(sequences, 'sequence')}, context {context:,}"
