"""The terminal table: its words as a golden file, its width, and what it must never do."""

import dataclasses
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from forerun.conditions import UNDISCLOSED, Conditions
from forerun.report.terminal import render
from forerun.sweep.results import CellState, TuneResult
from support.golden import assert_golden
from support.tune_example import tune_example

GOLDEN = Path(__file__).parent / "golden"


def printed(result: TuneResult, width: int = 100, **more) -> str:
    console = Console(file=io.StringIO(), width=width, **more)
    render(result, console)
    return console.file.getvalue()


def test_what_a_tune_prints():
    assert_golden(GOLDEN / "terminal.txt", printed(tune_example()))


def test_it_fits_a_hundred_columns_and_has_no_colour_codes_when_piped():
    text = printed(tune_example())
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "\x1b" not in text


def test_colours_add_nothing_that_words_do_not_say():
    coloured = printed(tune_example(), force_terminal=True, color_system="standard")
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == printed(tune_example())


def test_states_are_words_and_ties_have_no_ratio():
    text = printed(tune_example())
    rows = [line.split() for line in text.splitlines()]
    assert "tie [0.98, 1.06]" in text
    assert "1.02×" not in text
    assert ["chat", "off", "–", "too", "few", "pairs", "–", "–", "–", "–", "–"] in rows
    assert "none, best 0.97×" in text
    for state in (
        CellState.SPOILED,
        CellState.REFUSED,
        CellState.UNSUPPORTED,
        CellState.UNREACHABLE,
        CellState.NOT_RUN,
    ):
        assert f": {state.value}" in text
    assert "predicted only" in text


def test_nothing_in_a_name_can_steer_the_terminal_or_be_read_as_style():
    result = tune_example()
    verdict = dataclasses.replace(result.verdicts[0], sentences=("[bold]loud[/bold] \x1b[2J\rgone",))
    text = printed(dataclasses.replace(result, run_id="r\x1b]0;x\x07", verdicts=(verdict, *result.verdicts[1:])))
    assert "[bold]loud[/bold]" in text
    assert not {"\x1b", "\x07", "\r"} & set(text)


def test_a_changed_text_is_called_a_bug():
    result = tune_example()
    broken = dataclasses.replace(result.cells[0], differing_prompts=("code_edit/003",))
    text = printed(dataclasses.replace(result, cells=(broken, *result.cells[1:])))
    assert "BUG" in text
    assert "code_edit/003" in text
    assert "BUG" not in printed(result)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_other_widths_print_too(width):
    assert max(len(line) for line in printed(tune_example(), width).splitlines()) <= width


def test_the_prediction_stands_below_the_measurement():
    result = tune_example()
    (pick,) = [cell for cell in result.cells if cell.cell.candidate == result.verdicts[0].pick
               and cell.cell.setting == result.verdicts[0].setting]  # fmt: skip
    foretold = dataclasses.replace(pick, predicted_ratio=2.31)
    cells = tuple(foretold if cell is pick else cell for cell in result.cells)
    lines = printed(dataclasses.replace(result, cells=cells)).splitlines()
    (at,) = [index for index, line in enumerate(lines) if "2.46× [2.35, 2.58]" in line]
    assert lines[at + 1].split() == ["predicted", "2.31×"]
    assert lines[at + 1].index("predicted") == lines[at].index("2.46×")
    without = dataclasses.replace(pick, predicted_ratio=None)
    cells = tuple(without if cell is pick else cell for cell in result.cells)
    lines = printed(dataclasses.replace(result, cells=cells)).splitlines()
    assert "predicted" not in lines[at + 1]


def test_a_run_that_was_out_of_time_says_how_it_goes_on():
    result = tune_example()
    assert "unfinished" not in printed(result)
    text = printed(dataclasses.replace(result, num_unfinished=2))
    assert "unfinished    out of time: 2 parts of it are not done. The same command goes on with it." in text
    assert "1 part of it is not done" in printed(dataclasses.replace(result, num_unfinished=1))


@pytest.mark.parametrize(("count", "said"), [(1, ", 1 thread,"), (2, ", 2 threads,"), (UNDISCLOSED, None)])
def test_the_header_counts_threads(count, said):
    result = tune_example()
    header = printed(dataclasses.replace(result, conditions=dataclasses.replace(result.conditions, threads=count)))
    header = " ".join(header.partition("load")[0].split())
    assert said in header if said else "thread" not in header


def test_an_empty_tune_prints():
    empty = TuneResult("r", "h", "{}", False, Conditions(), (), (), (), (), (), (), (), (), (), 0)
    text = printed(empty)
    assert "comparisons" not in text
    assert "undisclosed" not in text
