"""Outputs that repeat themselves without end."""

from __future__ import annotations

from forerun.report import wording
from forerun.report.markup import Html, paragraph, section, table, tag
from forerun.sweep.results import TuneResult


def render(result: TuneResult) -> Html:
    """Each with its score and its beginning."""
    heading = "Looping outputs"
    if not result.looping:
        return section("looping", heading, paragraph("No output repeated itself without end."))
    rows = [
        [output.prompt_id, output.setting.label, tag("pre", output.excerpt), wording.percent(output.repetition)]
        for output in result.looping
    ]
    return section(
        "looping",
        heading,
        paragraph("A text that repeats itself is easy to guess and says nothing of real use: shown, in no verdict."),
        table("Looping outputs", ["Prompt", "Setting", "Excerpt", "Repetition"], rows, num_texts=3),
    )
