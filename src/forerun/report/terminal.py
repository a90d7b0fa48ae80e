"""A tune as a person reads it in a terminal: a table, a verdict per workload, and what else must be known.

Every state is a word, never only a colour, so that a piped or pasted table says the same.
"""

from __future__ import annotations

from collections.abc import Callable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forerun.conditions import UNDISCLOSED
from forerun.report import wording
from forerun.report.group import Group, groups
from forerun.report.notes import (
    comparisons,
    inflation_sentence,
    lossless_failures,
    pairs_sentence,
    shortfalls,
    unfinished_sentence,
)
from forerun.report.standing import Outcome, Standing
from forerun.sweep.results import TuneResult

_STYLES = {Outcome.PAYS: "bold green", Outcome.TIE: "yellow", Outcome.OFF: "bold", Outcome.UNDECIDED: "dim"}


def render(result: TuneResult, console: Console) -> None:
    """Prints the tables, the verdicts and the notes; fits 100 columns."""
    console.print(_headline(result))
    for group in groups(result):
        console.print()
        console.print(Text(wording.printable(group.label), style="bold"))
        console.print(_table(group))
        console.print(_verdicts(group))
    console.print()
    console.print(_notes(result))


def _headline(result: TuneResult) -> Text:
    conditions = result.conditions
    facts = [conditions.engine, conditions.target.quantisation, f"{conditions.device_count} x {conditions.device}"]
    facts += [wording.threads(conditions.threads), f"load {conditions.load}"]
    known = [wording.printable(fact) for fact in facts if UNDISCLOSED not in fact]
    kind = "quick tune" if result.is_quick else "tune"
    return Text(f"forerun {kind} {wording.printable(result.run_id)}: ", style="bold").append(
        ", ".join(known), "not bold"
    )


def _table(group: Group) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("workload", no_wrap=True)
    table.add_column("run this", overflow="fold", min_width=12)
    table.add_column("N", justify="right")
    table.add_column("speed-up\n\\[interval]", no_wrap=True)
    table.add_column("pairs", justify="right")
    table.add_column("tokens\n/round", justify="right")
    table.add_column("accep-\ntance", justify="right")
    table.add_column("tok/s\noff → pick", justify="right", no_wrap=True, style="dim")
    table.add_column("TTFT, ms\noff → pick", justify="right", no_wrap=True)
    for standing in group.ordinary:
        table.add_row(*_row(standing))
    return table


def _row(standing: Standing) -> list[Text]:
    pick, off = standing.pick, standing.off_figures
    figures = pick.figures if pick is not None else None
    n = str(pick.cell.candidate.num_speculative_tokens) if pick is not None else wording.ABSENT
    name = pick.cell.candidate.family_label if pick is not None else "off"
    shown = standing.best if pick is None else pick
    cells = [
        standing.setting.workload,
        name,
        n,
        _speed_up(standing),
        str(shown.num_pairs) if shown is not None else wording.ABSENT,
        wording.number(figures.tokens_per_round if figures else None),
        wording.percent(figures.acceptance_rate if figures else None),
        _change(wording.rate, off.throughput if off else None, figures.throughput if figures else None),
        _change(wording.milliseconds, off.ttft_p50 if off else None, figures.ttft_p50 if figures else None),
    ]
    texts = [Text(wording.printable(cell)) for cell in cells]
    for column in (1, 3):
        texts[column].stylize(_STYLES[standing.outcome])
    if shown is not None and shown.predicted_ratio is not None:
        texts[3].append(f"\npredicted {wording.ratio(shown.predicted_ratio)}", "not bold dim")
    return texts


def _speed_up(standing: Standing) -> str:
    """The pick's ratio with its interval; where there is no pick, why in words."""
    pick, best = standing.pick, standing.best
    if pick is not None and pick.interval is not None:
        return f"{wording.ratio(pick.ratio)} [{pick.interval.low:.2f}, {pick.interval.high:.2f}]"
    if best is None or best.interval is None:
        return standing.why_undecided
    if standing.outcome is Outcome.TIE:
        return f"tie [{best.interval.low:.2f}, {best.interval.high:.2f}]"
    return f"none, best {wording.ratio(best.ratio)}"


def _change(shown: Callable[[float | None], str], before: float | None, after: float | None) -> str:
    return shown(before) if after is None else f"{shown(before)} → {shown(after)}"


def _verdicts(group: Group) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column()
    for standing in group.ordinary:
        sentences = standing.verdict.sentences if standing.verdict else (f"No verdict: {standing.why_undecided}.",)
        grid.add_row(Text(standing.setting.workload), Text(wording.printable(" ".join(sentences))))
    return grid


def _notes(result: TuneResult) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column()
    for failure in lossless_failures(result):
        grid.add_row(Text("BUG", style="bold red"), Text(wording.printable(failure), style="red"))
    for entry in result.inflation:
        grid.add_row(Text("inflation"), Text(wording.printable(inflation_sentence(entry, result.control_workloads))))
    if result.num_comparisons:
        grid.add_row(Text("comparisons"), Text(comparisons(result)))
    grid.add_row(Text("pairs"), Text(pairs_sentence(result)))
    if not result.is_finished:
        grid.add_row(Text("unfinished", style="yellow"), Text(unfinished_sentence(result)))
    for shortfall in shortfalls(result):
        grid.add_row(Text("not measured"), Text(wording.printable(shortfall.sentence)))
    return grid
