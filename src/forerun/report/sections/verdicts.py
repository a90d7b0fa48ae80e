"""What to run, workload by workload, and why."""

from __future__ import annotations

from forerun.report import notes, wording
from forerun.report.group import Group, groups
from forerun.report.markup import Html, joined, paragraph, section, table, tag
from forerun.report.scale import LogScale
from forerun.report.standing import Outcome, Standing
from forerun.sweep.results import TuneResult


def render(result: TuneResult) -> Html:
    """A table for each group, then what the comparison rests on."""
    found = groups(result)
    return section(
        "verdicts",
        "What to run",
        paragraph(
            "off is a candidate everywhere. Of several draft lengths that can't be told apart, the smallest is picked. "
            "In the bars, the shaded part is the interval of the median, the thin line is off."
        ),
        *(_table(group) for group in found if group.ordinary),
        paragraph(" ".join(_basis(result)), class_="note"),
    )


def _basis(result: TuneResult) -> list[str]:
    """What the comparison rests on; nothing is said of comparisons where there was none."""
    compared = [notes.comparisons(result)] if result.num_comparisons else []
    unfinished = [] if result.is_finished else [f"This run is {notes.unfinished_sentence(result)}"]
    return [*compared, notes.pairs_sentence(result), *unfinished]


def _table(group: Group) -> Html:
    intervals = [standing.best.interval for standing in group.ordinary if standing.best and standing.best.interval]
    scale = LogScale.around(end for interval in intervals for end in (interval.low, interval.high))
    return table(
        group.label,
        ["Workload", "Run", "Speed against off", "", "Why"],
        [_row(standing, scale) for standing in group.ordinary],
        num_texts=5,
        class_="verdicts",
    )


def _row(standing: Standing, scale: LogScale) -> list[Html | str]:
    shown = standing.pick or standing.best
    interval = shown.interval if shown is not None else None
    sentences = standing.verdict.sentences if standing.verdict is not None else ()
    bar = scale.interval(interval.low, interval.median, interval.high) if interval is not None else ""
    run = standing.pick.cell.candidate.label if standing.pick is not None else "off"
    return [standing.setting.workload, tag("strong", run), _speed(standing), bar, " ".join(sentences)]


def _speed(standing: Standing) -> Html | str:
    shown = standing.pick or standing.best
    if shown is None or shown.interval is None:
        return standing.why_undecided
    span = tag("small", wording.span(shown.interval))
    if standing.outcome is Outcome.TIE:
        return joined(["tie", span])
    if standing.pick is None:
        return joined([f"best other {wording.ratio(shown.ratio)}", span])
    return joined([wording.ratio(shown.ratio), span])
