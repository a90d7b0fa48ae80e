"""What could not be measured: a result too, and never drawn as no change."""

from __future__ import annotations

from forerun.report import notes, wording
from forerun.report.markup import Html, paragraph, section, table
from forerun.sweep.results import TuneResult


def render(result: TuneResult) -> Html:
    """Gaps of the whole sweep, then cells by how they ended."""
    shortfalls = notes.shortfalls(result)
    if not shortfalls:
        return section("gaps", "What could not be measured", paragraph("Every planned cell has an interval."))
    rows = [
        [
            ", ".join(shortfall.methods),
            shortfall.state,
            shortfall.reason or "no reason recorded",
            ", ".join(shortfall.workloads) or wording.ABSENT,
            f"{shortfall.num_cells}" if shortfall.num_cells else "not offered",
        ]
        for shortfall in shortfalls
    ]
    return section(
        "gaps",
        "What could not be measured",
        paragraph("These have no ratio. Not measured does not mean no difference."),
        table("Without a measured ratio", ["Method", "State", "Why", "Workloads", "Cells"], rows, num_texts=4),
    )
