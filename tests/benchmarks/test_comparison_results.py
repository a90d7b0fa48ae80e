"""The page: losses as plainly as wins, nothing left out, and a report that reads back as it was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.divergence import Divergence
from benchmarks.peers.base import NotRun
from benchmarks.report import Figure, RatioRow, Report, SettingRow, TuningRow, read, write
from benchmarks.results import interval, render, verdict

SLOW = RatioRow(6, 0.5, 0.4, 0.6)
FIGURE = Figure(
    "code", "plain / plain", "forerun plain (bf16)", "vLLM plain (bf16)", SLOW, RatioRow(6, 0.7, 0.6, 1.2), 2.0
)
ROW = SettingRow("code", "vLLM ngram n=4 (bf16)", 12.34, 81.0, RatioRow(2, 1.5), 40, 10, 1.33, 2, 1, 3)
UNMEASURED = ("vLLM plain (bf16; 2 threads)", None, RatioRow(0), False)
REPORT = Report(
    pair="target",
    command="python -m benchmarks.compare --target target",
    date="2026-12-01",
    machine="a machine",
    is_quick=False,
    is_complete=True,
    versions={"vLLM": "1"},
    prompts={"code": "to choose on 2, to compare on 6"},
    figures=[FIGURE],
    rows=[ROW],
    divergences=[Divergence("vLLM plain (bf16)", 8, 0.00123, 0.0004, 0.875)],
    not_run=[NotRun("llama.cpp", "pip | failed\nbadly")],
    broken=[],
    tunings=[TuningRow("vLLM plain (bf16; 1 thread)", 20.0, RatioRow(2, 0.4), True), TuningRow(*UNMEASURED)],
)


@pytest.mark.parametrize(
    ("ratio", "reach", "words"),
    [
        (SLOW, None, "**slower**"),
        (SLOW, 2.0, "**slower**, aim **missed**"),
        (RatioRow(6, 2.5, 2.0, 3.0), 2.0, "faster, aim reached"),
        (RatioRow(6, 1.5, 1.2, 1.9), 2.0, "faster, aim **missed**"),
        (RatioRow(6, 1.1, 0.9, 1.3), None, "tie"),
        (RatioRow(3, 9.0), 2.0, "too few pairs"),
        (RatioRow(0), 2.0, "not measured"),
    ],
)
def test_the_verdict_says_what_the_interval_does(ratio: RatioRow, reach: float | None, words: str) -> None:
    assert verdict(ratio, reach) == words


def test_ratios_show_their_intervals() -> None:
    assert interval(SLOW) == "0.50 [0.40, 0.60]"
    assert interval(RatioRow(2, 1.5)) == "1.50" and interval(RatioRow(0)) == "–"


def test_a_report_reads_back_as_it_was_written(tmp_path: Path) -> None:
    write(REPORT, tmp_path / "kept" / "a.json")
    assert read(tmp_path / "kept" / "a.json") == REPORT


def test_everything_is_on_the_page() -> None:
    page = render([REPORT])
    assert "    python -m benchmarks.compare --target target" in page
    assert "| code | plain / plain | forerun plain (bf16) | vLLM plain (bf16) | 0.50 [0.40, 0.60] |" in page
    assert "**slower**, aim **missed**" in page
    assert "| code | vLLM ngram n=4 (bf16) | 12.3 | 81.0 | 1.50 | 2 | 10 / 40 | 1.33 | 1 of 2 | 3 |" in page
    assert "| vLLM plain (bf16) | 8 | 0.0012 | 0.0004 | 88% |" in page
    assert "| llama.cpp | pip / failed badly |" in page  # one row of the table, whatever the reason holds
    assert "| vLLM plain (bf16; 1 thread) | 20.0 | 0.40 | chosen |" in page
    assert "| vLLM plain (bf16; 2 threads) | – | – |  |" in page
    assert "threads run best" not in render([replace(REPORT, tunings=[])])
    assert "token by token" in page and "contract is broken" not in page


def test_a_text_that_drafting_changed_is_said_first() -> None:
    page = render([replace(REPORT, broken=["forerun suffix n=7 (bf16)"], is_complete=False, divergences=[])])
    assert "**forerun's own contract is broken**" in page and "forerun suffix n=7 (bf16)" in page
    assert "fewer pairs than planned" in page and "--positions 0" in page


def test_pairs_stand_one_after_the_other() -> None:
    page = render([REPORT, replace(REPORT, pair="another")])
    assert page.index("## target") < page.index("## another") and page.count("# forerun beside its peers") == 1
