"""How much repeated text flatters each method."""

from __future__ import annotations

from forerun.report import wording
from forerun.report.markup import Html, joined, paragraph, section, table, tag
from forerun.report.scale import LogScale
from forerun.sweep.cells import short_name
from forerun.sweep.results import Inflation, TuneResult


def render(result: TuneResult) -> Html:
    """Ratio on the control class over ratio on ordinary text, a row for each method."""
    control = wording.listing(result.control_workloads) or "a control class"
    if not result.inflation:
        words = f"No method has a figure both on {control} and on ordinary workloads, so inflation is unknown here."
        return section("inflation", "Inflation", paragraph(words))
    entries = result.inflation
    scale = LogScale.around(ratio for entry in entries for ratio in (entry.repeat_ratio, entry.ordinary_ratio))
    return section(
        "inflation",
        "Inflation",
        paragraph(
            f"Repeated text ({control}) is easy to guess: a speed-up on it says little. Inflation is that speed-up "
            "over the geometric mean on ordinary workloads. The line is off."
        ),
        table(
            "Speed against off on ordinary and on repeated text",
            ["Method", "", "○ Ordinary", "● Repeated", "Inflation"],
            [_row(entry, scale, _place(result, entry)) for entry in entries],
            num_texts=2,
            class_="inflation",
        ),
    )


def _row(entry: Inflation, scale: LogScale, place: str) -> list[Html | str]:
    known = f"{wording.plural(entry.num_workloads, 'workload')}{', partly predicted' if entry.is_predicted else ''}"
    return [
        joined([entry.candidate.label, tag("small", place) if place else None, tag("small", known)]),
        scale.dumbbell(entry.ordinary_ratio, entry.repeat_ratio),
        wording.ratio(entry.ordinary_ratio),
        wording.ratio(entry.repeat_ratio),
        tag("strong", wording.ratio(entry.factor)),
    ]


def _place(result: TuneResult, entry: Inflation) -> str:
    """Target, temperature and concurrency, where the tune has more than one of them."""
    places = {(one.target, one.temperature, one.concurrency) for one in result.inflation}
    if len(places) == 1:
        return ""
    return f"{short_name(entry.target)}, T={entry.temperature:g}, {entry.concurrency} at a time"
