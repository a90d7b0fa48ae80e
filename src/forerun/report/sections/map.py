"""The map: method and N against workload. A filled cell was measured; nothing else has a colour of its own."""

from __future__ import annotations

import math
from typing import Final

from forerun.report import wording
from forerun.report.families import lengths
from forerun.report.group import Group, groups
from forerun.report.markup import Html, joined, paragraph, scrolling, section, tag
from forerun.report.standing import Outcome, Standing
from forerun.sweep.results import Candidate, Cell, CellResult, CellState, TuneResult

# Upper ends of the shades, as a factor above or below 1.
_SHADES: Final = (1.1, 1.25, 1.5, 2.0)
# Keeps families apart.
_GAP: Final = tag("td", class_="gap", aria_hidden="true")


def render(result: TuneResult) -> Html:
    """One map for each target, temperature and concurrency."""
    maps = [_map(group) for group in groups(result)]
    return section(
        "map",
        "The map",
        paragraph(
            "Speed against plain decoding (off, 1.00) by workload, method and number of drafted tokens a round (N): "
            "the median of n pairs that ran with and without drafts in turn. Point at a cell, or tap it, for its "
            "interval and the rest."
        ),
        _legend(),
        *maps,
    )


def shade(ratio: float) -> str:
    """The class that colours a measured ratio; equal factors up and down are equally strong."""
    factor = math.exp(abs(math.log(ratio)))
    strength = 1 + sum(factor > end for end in _SHADES)
    return f"{'up' if ratio > 1 else 'down'}-{strength}"


def _legend() -> Html:
    steps = [("down", strength) for strength in range(len(_SHADES) + 1, 0, -1)]
    steps += [("up", strength) for strength in range(1, len(_SHADES) + 2)]
    swatches = [tag("span", class_=f"swatch {side}-{strength}") for side, strength in steps]
    low, high = f"{1 / _SHADES[-1]:.2f}×", f"{_SHADES[-1]:.2f}×"
    ramp = tag("span", f"under {low} ", tag("span", *swatches, class_="ramp"), f" over {high}", class_="key")
    return tag(
        "div",
        ramp,
        tag("span", "▼ slower than off", class_="key"),
        tag("span", tag("span", class_="swatch tie"), " tie: not to be told from off", class_="key"),
        tag("span", tag("span", class_="swatch predicted"), " predicted, not measured", class_="key"),
        tag("span", tag("span", class_="swatch pick"), " what to run", class_="key"),
        class_="legend",
    )


def _map(group: Group) -> Html:
    columns = lengths(group)
    names = [
        joined([_GAP, tag("th", family.family_label, scope="colgroup", colspan=len(numbers))])
        for family, numbers in columns.items()
    ]
    numbers = [
        joined([_GAP, *(tag("th", f"N={n}", scope="col") for n in family_numbers)])
        for family_numbers in columns.values()
    ]
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "Workload", scope="col", rowspan=2),
            tag("th", "Run", scope="col", rowspan=2, class_="run"),
            *names,
        ),
        tag("tr", *numbers),
    )
    ordinary = tag("tbody", *(_row(standing, columns) for standing in group.ordinary))
    control = [_row(standing, columns) for standing in group.control]
    label = f"{group.label}: speed against off by workload, method and N"
    content = tag(
        "table",
        tag("caption", group.label),
        head,
        ordinary,
        tag("tbody", *control, class_="control") if control else None,
        class_="map",
    )
    return scrolling(label, content)


def _row(standing: Standing, columns: dict[Candidate, list[int]]) -> Html:
    found = {cell.cell.candidate: cell for cell in standing.cells}
    cells = []
    for family, numbers in columns.items():
        cells.append(_GAP)
        for n in numbers:
            candidate = Candidate(family.method, n, family.is_tree, family.knobs, family.drafter)
            cells.append(_cell(Cell.of(standing.setting, candidate), found.get(candidate), standing))
    name = joined([standing.setting.workload, tag("small", "control") if standing.verdict is None else None])
    return tag("tr", tag("th", name, scope="row"), tag("td", _run(standing), class_="run"), *cells)


def _run(standing: Standing) -> str:
    if standing.verdict is None:
        return "in no verdict"
    if standing.outcome is Outcome.UNDECIDED:
        return "off, undecided"
    return {Outcome.TIE: "off, a tie", Outcome.OFF: "off"}.get(standing.outcome, standing.verdict.pick.label)


def _cell(cell: Cell, result: CellResult | None, standing: Standing) -> Html:
    if result is None:
        return tag("td", class_="cell unplanned", aria_label=f"{cell.label}: not in the plan")
    kind, content = _content(result)
    tip = describe(result)
    is_pick = standing.pick is not None and result.cell == standing.pick.cell
    return tag(
        "td",
        content,
        class_=f"cell {kind} pick" if is_pick else f"cell {kind}",
        data_tip=tip,
        tabindex=0,
        aria_label=tip,
    )


def _content(result: CellResult) -> tuple[str, Html]:
    """Class and text of a cell: a number where it was measured, else the state by name."""
    pairs = tag("small", f"n={result.num_pairs}") if result.num_pairs else None
    if result.ratio is not None:
        sign = "▼" if result.ratio < 1 else ""
        return shade(result.ratio), joined([f"{sign}{result.ratio:.2f}", pairs])
    if result.state is CellState.TIE:
        return "tie", joined(["tie", pairs])
    if wording.is_predicted_only(result):
        assert result.predicted_ratio is not None
        return "predicted", joined([f"≈{result.predicted_ratio:.2f}", tag("small", "predicted")])
    return "state", joined([tag("span", wording.outcome(result)), pairs])


def describe(result: CellResult) -> str:
    """All that the map knows of a cell, a line each."""
    lines = [result.cell.label]
    if result.interval is not None:
        word = "a tie with off" if result.state is CellState.TIE else f"{wording.ratio(result.ratio)} the speed of off"
        lines.append(f"{word} ({wording.span(result.interval)})")
    else:
        lines.append(wording.ending(result))
    if result.figures is not None:
        figures = result.figures
        lines.append(
            f"{wording.number(figures.tokens_per_round)} tokens a round, mean accepted length "
            f"{wording.number(figures.mean_accepted_length)}, acceptance {wording.percent(figures.acceptance_rate)}, "
            f"coverage {wording.percent(figures.coverage)}"
        )
    if result.interval is not None and result.predicted_ratio is not None:
        lines.append(f"predicted {wording.ratio(result.predicted_ratio)}")
    if result.num_discarded_pairs:
        lines.append(f"{wording.plural(result.num_discarded_pairs, 'pair')} discarded for machine load")
    if result.has_lossless_failure:
        lines.append("drafting changed a text: a bug")
    return "\n".join(lines)
