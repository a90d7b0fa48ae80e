"""Every figure of every cell, together: one alone misleads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from forerun.report import wording
from forerun.report.group import Group, groups
from forerun.report.markup import Child, Html, details, joined, paragraph, scrolling, section, tag
from forerun.report.standing import Standing
from forerun.sweep.cells import short_name
from forerun.sweep.results import CellResult, Figures, TuneResult

_HEAD = (
    "Candidate", "Pairs", "Speed against off", "Throughput, tok/s", "Mean accepted length", "Acceptance rate",
    "Coverage", "Tokens per round", "TTFT p50", "TTFT p95", "Between tokens p50", "Between tokens p95", "Prompts "
    "slower than off",
    "Worst prompt", "Checks passed", "Peak memory", "Time: draft / verify / sample / other",
)  # fmt: skip


def render(result: TuneResult) -> Html:
    """A table for each setting, folded; the pick comes first in its heading."""
    found = groups(result)
    return section(
        "figures",
        "All figures",
        paragraph(
            "Small print under a figure: the same for off, measured in the same pairs. Throughput counts tokens over "
            "wall time, prefill included. Coverage: rounds with a draft. Tokens per round: tokens given out over "
            "rounds. Mean accepted length: 1 + accepted over rounds with a draft. Acceptance rate: accepted over "
            "drafted. Time between tokens is per token, never per chunk."
        ),
        *(_setting(group, standing, len(found) > 1) for group in found for standing in group.standings),
    )


def _setting(group: Group, standing: Standing, is_labelled_whole: bool) -> Html:
    tally = Counter(wording.outcome(cell) if cell.ratio is None else "measured" for cell in standing.cells)
    states = ", ".join(f"{count} {state}" for state, count in tally.items())
    setting = standing.setting
    name = setting.label if is_labelled_whole else setting.workload
    if is_labelled_whole and setting.target != group.target:
        name = f"{short_name(setting.target)}: {name}"
    head = tag("tr", *(tag("th", title, scope="col", class_="figure" if i else None) for i, title in enumerate(_HEAD)))
    content = tag(
        "table",
        tag("caption", setting.label),
        tag("thead", head),
        tag("tbody", *(_row(cell, standing) for cell in standing.cells)),
        class_="figures",
    )
    return details(joined([tag("strong", name), f": {states}"]), scrolling(f"Figures, {setting.label}", content))


def _row(cell: CellResult, standing: Standing) -> Html:
    name = tag("th", cell.cell.candidate.label, scope="row", class_="pick" if cell is standing.pick else None)
    figures, off = cell.figures, cell.off_figures
    if figures is None:
        words = wording.ending(cell)
        return tag("tr", name, _figure(_pairs(cell)), tag("td", words, colspan=len(_HEAD) - 2, class_="words"))

    def both(shown: Callable[[Figures], str]) -> Html:
        return _figure(joined([shown(figures), tag("small", f"off {shown(off)}") if off is not None else None]))

    return tag(
        "tr",
        name,
        _figure(_pairs(cell)),
        _figure(_speed(cell)),
        both(lambda one: wording.rate(one.throughput)),
        _figure(wording.number(figures.mean_accepted_length)),
        _figure(wording.percent(figures.acceptance_rate)),
        _figure(wording.percent(figures.coverage)),
        _figure(wording.number(figures.tokens_per_round)),
        both(lambda one: wording.duration(one.ttft_p50)),
        both(lambda one: wording.duration(one.ttft_p95)),
        both(lambda one: wording.duration(one.inter_token_p50)),
        both(lambda one: wording.duration(one.inter_token_p95)),
        _figure(wording.percent(cell.share_slower_prompts)),
        _figure(wording.ratio(cell.worst_prompt_ratio)),
        both(_passed),
        both(lambda one: wording.memory(one.peak_memory)),
        _figure(_phases(figures)),
    )


def _figure(content: Child) -> Html:
    return tag("td", content, class_="figure")


def _pairs(cell: CellResult) -> Html:
    parts = []
    if cell.num_discarded_pairs:
        parts.append(f"{cell.num_discarded_pairs} discarded")
    if cell.num_looping_pairs:
        parts.append(f"{cell.num_looping_pairs} looping")
    return joined([str(cell.num_pairs), tag("small", ", ".join(parts)) if parts else None])


def _speed(cell: CellResult) -> Html:
    span = f"{cell.interval.low:.2f} to {cell.interval.high:.2f}" if cell.interval is not None else cell.reason
    return joined([wording.outcome(cell), tag("small", span)])


def _passed(figures: Figures) -> str:
    return f"{wording.percent(figures.pass_rate)} of {figures.num_checked}" if figures.num_checked else "no checker"


def _phases(figures: Figures) -> str:
    timings = figures.timings
    if not timings.total:
        return wording.ABSENT
    phases = (timings.draft, timings.verify, timings.sample, timings.other)
    return " / ".join(wording.percent(seconds / timings.total) for seconds in phases)
