"""Acceptance by position, in both conventions, from the raw counts."""

from __future__ import annotations

from collections.abc import Sequence

from forerun import ratios
from forerun.report import wording
from forerun.report.axis import Axis
from forerun.report.families import families
from forerun.report.group import groups
from forerun.report.markup import Html, paragraph, section, table
from forerun.report.plot import Plot, caption_line, legend, line, small_multiples
from forerun.report.standing import Standing
from forerun.sweep.cells import short_name
from forerun.sweep.results import Candidate, CellResult, TuneResult


def render(result: TuneResult) -> Html:
    """One small figure for each setting: of every family the measured cell with the largest N."""
    known = families(result)
    standings = [standing for group in groups(result) for standing in group.standings]
    chosen = [(standing, _longest(standing)) for standing in standings]
    figures = [
        _figure(number, standing, cells, known, result) for number, (standing, cells) in enumerate(chosen) if cells
    ]
    if not figures:
        return section(
            "acceptance", "Acceptance by position", paragraph("No cell kept a pair, so no draft was counted.")
        )
    shown = {cell.cell.candidate.family for _, cells in chosen for cell in cells}
    return section(
        "acceptance",
        "Acceptance by position",
        paragraph(
            "Two conventions are in use, and mixing them misleads. Unconditional: of the drafts that reached position "
            "i, how many were accepted up to it; it can only fall. Conditional: of those whose earlier tokens were all "
            "accepted, how many were accepted at i too; it shows whether late positions are guessed worse."
        ),
        legend(
            [(known.index(family), family.family_label) for family in known if family in shown],
            "solid: unconditional",
            "dotted: conditional",
        ),
        small_multiples(figures),
    )


def _longest(standing: Standing) -> list[CellResult]:
    found: dict[Candidate, CellResult] = {}
    for cell in standing.cells:
        family = cell.cell.candidate.family
        if family is None or cell.figures is None or not cell.figures.counts.positions:
            continue
        best = found.get(family)
        n = cell.cell.candidate.num_speculative_tokens
        if best is None or n > best.cell.candidate.num_speculative_tokens:
            found[family] = cell
    return list(found.values())


def _figure(
    number: int, standing: Standing, cells: Sequence[CellResult], known: Sequence[Candidate], result: TuneResult
) -> Html:
    setting = standing.setting
    depth = max(len(cell.figures.counts.positions) for cell in cells if cell.figures is not None)
    plot = Plot(
        f"acceptance-{number}",
        f"Acceptance by draft position on {setting.label}, unconditional and conditional",
        Axis.of_counts("position in the draft", range(1, depth + 1)),
        Axis("accepted", is_percent=True),
        height=220,
    )
    for cell in cells:
        _add_lines(plot, cell, known)
    several = len({one.target for one in result.settings}) > 1
    return plot.html(
        [caption_line("; ".join(_words(cell) for cell in cells) + ".")],
        table(
            f"Acceptance by position, {setting.label}",
            ["Candidate", "Position", "Proposed", "Reached", "Accepted", "Unconditional", "Conditional"],
            [row for cell in cells for row in _rows(cell)],
        ),
        title=f"{short_name(setting.target)}: {setting.label}" if several else setting.label,
    )


def _add_lines(plot: Plot, cell: CellResult, known: Sequence[Candidate]) -> None:
    family, figures = cell.cell.candidate.family, cell.figures
    assert family is not None
    assert figures is not None
    conventions = (("unconditional", figures.unconditional_acceptance), ("conditional", figures.conditional_acceptance))
    for name, values in conventions:
        positions = list(range(1, len(values) + 1))
        label = cell.cell.candidate.label
        plot.add(
            line(
                f"{label}, {name}",
                positions,
                values,
                series=known.index(family),
                is_dashed=name == "conditional",
                is_open=name == "conditional",
                hover=[
                    f"{label}, position {i}: {wording.percent(value)} {name}" for i, value in zip(positions, values)
                ],
            )
        )


def _words(cell: CellResult) -> str:
    assert cell.figures is not None
    drafts = cell.figures.counts.rounds - cell.figures.counts.rounds_without_draft
    pairs = wording.plural(cell.num_pairs, "pair")
    return f"{cell.cell.candidate.label}: {wording.plural(drafts, 'draft')} in {pairs}"


def _rows(cell: CellResult) -> list[list[Html | str]]:
    assert cell.figures is not None
    counts = cell.figures.counts
    both = zip(counts.positions, ratios.unconditional_acceptance(counts), ratios.conditional_acceptance(counts))
    return [
        [
            cell.cell.candidate.label,
            str(i),
            f"{position.proposed:,}",
            f"{position.reached:,}",
            f"{position.accepted:,}",
            wording.percent(unconditional),
            wording.percent(conditional),
        ]
        for i, (position, unconditional, conditional) in enumerate(both, start=1)
    ]
