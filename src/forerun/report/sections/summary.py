"""The top of the page: which target, and what to do, in one paragraph."""

from __future__ import annotations

from collections import Counter

from forerun.conditions import UNDISCLOSED
from forerun.report import notes, wording
from forerun.report.group import groups
from forerun.report.markup import Html, paragraph, tag
from forerun.report.standing import Outcome, Standing
from forerun.sweep.cells import short_name
from forerun.sweep.results import CellResult, TuneResult


def title(result: TuneResult) -> str:
    """The targets by name."""
    return wording.listing(dict.fromkeys(short_name(setting.target) for setting in result.settings)) or "no target"


def render(result: TuneResult) -> Html:
    """Heading, verdict, and the facts without which the figures mean nothing."""
    kind = "quick tune" if result.is_quick else "tune"
    return tag(
        "div",
        paragraph(f"forerun {kind} · {result.run_id}", class_="eyebrow"),
        tag("h1", "What drafting pays on ", tag("span", title(result), class_="target")),
        paragraph(verdict(result), class_="verdict"),
        *(paragraph(tag("strong", "Bug: "), failure, class_="alarm") for failure in notes.lossless_failures(result)),
        paragraph(facts(result), " ", tag("a", "All conditions", href="#conditions"), class_="facts"),
        class_="intro",
    )


def verdict(result: TuneResult) -> str:
    """Where drafting pays, where it does not, what is best and worst; from the cells alone."""
    standings = [standing for group in groups(result) for standing in group.ordinary]
    if not standings:
        return "This tune holds no ordinary workload, so it gives no verdict."
    sentences = [_tally(standings)]
    picks = [standing for standing in standings if standing.outcome is Outcome.PAYS and standing.pick is not None]
    if picks:
        best = max(picks, key=lambda standing: _ratio(standing.pick))
        sentences.append(f"The largest gain: {_described(best.pick)}.")
    labels = list(dict.fromkeys(standing.pick.cell.candidate.label for standing in picks if standing.pick))
    if len(labels) > 1:
        sentences.append(f"No single choice is best everywhere: the picks are {wording.listing(labels)}.")
    losses = [cell for standing in standings for cell in standing.cells if cell.ratio is not None and cell.ratio < 1]
    if losses:
        sentences.append(f"The wrong choice costs: {_described(min(losses, key=_ratio))}.")
    return " ".join(sentences)


def facts(result: TuneResult) -> str:
    """One line of conditions, and what the comparison rests on."""
    conditions = result.conditions
    device = f"{conditions.device_count} × {conditions.device}"
    parts = [
        conditions.engine,
        f"weights {conditions.target.quantisation}",
        device,
        wording.threads(conditions.threads),
    ]
    known = [part for part in parts if UNDISCLOSED not in part]
    known.append(f"{wording.plural(result.num_pairs, 'pair')} over {wording.plural(len(result.cells), 'cell')}")
    if result.num_pairs and not any(cell.has_lossless_failure for cell in result.cells):
        known.append("text identical with and without drafts in every pair")
    return " · ".join(known) + "."


def _tally(standings: list[Standing]) -> str:
    tally = Counter(standing.outcome for standing in standings)
    counted = {
        "plain decoding is fastest in": tally[Outcome.OFF],
        "it is a tie in": tally[Outcome.TIE],
        "nothing could be decided in": tally[Outcome.UNDECIDED],
    }
    rest = [f"{words} {count}" for words, count in counted.items() if count]
    first = f"Drafting pays in {tally[Outcome.PAYS]} of {wording.plural(len(standings), 'setting')}"
    return f"{first}; {wording.listing(rest)}." if rest else f"{first}."


def _described(cell: CellResult | None) -> str:
    assert cell is not None
    assert cell.interval is not None
    return f"{cell.cell.label}, {wording.ratio(cell.interval.median)} the speed of off ({wording.span(cell.interval)})"


def _ratio(cell: CellResult | None) -> float:
    return cell.interval.median if cell is not None and cell.interval is not None else 0.0
