"""Small parts of the report by hand: wording, shades, scales, axes, markup, standings."""

import dataclasses
import math

import pytest

from forerun.report import notes, wording
from forerun.report.axis import Axis
from forerun.report.group import groups
from forerun.report.markup import Html, joined, tag
from forerun.report.scale import LogScale
from forerun.report.sections.map import shade
from forerun.report.sections.summary import verdict
from forerun.report.standing import Outcome, Standing
from forerun.sweep.results import CellState, Setting
from support.tune_example import OFF_RATE, TARGET, tune_example


def test_nothing_is_shown_as_zero_or_one():
    shown = (wording.ratio, wording.number, wording.percent, wording.rate, wording.duration, wording.memory)
    assert {show(None) for show in shown} == {wording.ABSENT}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (wording.percent(0.996), "99.6%"),
        (wording.percent(1.0), "100%"),
        (wording.percent(0.0), "0%"),
        (wording.percent(0.004), "0.4%"),
        (wording.percent(0.456), "46%"),
        (wording.duration(2.5), "2.50 s"),
        (wording.duration(0.0123), "12.3 ms"),
        (wording.duration(4.2e-6), "4.20 µs"),
        (wording.milliseconds(0.2314), "231"),
        (wording.rate(27.44), "27.4"),
        (wording.rate(2720.0), "2,720"),
        (wording.memory(3 * 2**29), "1.50 GiB"),
        (wording.memory(98 * 2**20), "98 MiB"),
        (wording.plural(1, "pair"), "1 pair"),
        (wording.plural(8, "pair"), "8 pairs"),
        (wording.listing([]), ""),
        (wording.listing(["a"]), "a"),
        (wording.listing(["a", "b", "c"]), "a, b and c"),
        (wording.printable("a\x1b[1m\nb"), "a [1m b"),
    ],
)
def test_numbers_as_a_person_reads_them(said, expected):
    assert said == expected


def test_shades_are_equally_strong_up_and_down():
    for factor, strength in ((1.05, 1), (1.2, 2), (1.4, 3), (1.9, 4), (2.1, 5), (9.0, 5)):
        assert shade(factor) == f"up-{strength}"
        assert shade(1 / factor) == f"down-{strength}"


def test_doubling_is_as_far_as_halving():
    scale = LogScale.around([0.5, 2.0])
    middle = scale.percent(1.0)
    assert math.isclose(scale.percent(2.0) - middle, middle - scale.percent(0.5))
    assert 0 < scale.percent(0.5) < scale.percent(2.0) < 100


@pytest.mark.parametrize("values", [[0.97, 1.02], [0.5, 2.5], [0.1, 20.0], [1.0], [4.1, 4.7]])
def test_a_ratio_axis_holds_every_value_and_one(values):
    axis = Axis.of_ratios("speed", values).layout()
    low, high = (10**end for end in axis["range"])
    assert low < min(1.0, *values) if min(values) < 1 else low < 1
    assert high > max(1.0, *values)
    assert 1.0 in axis["tickvals"]
    assert 1 <= len(axis["tickvals"]) <= 7


def test_a_count_axis_has_whole_ticks():
    assert Axis.of_counts("N", [15, 1, 7, 3, 1]).layout()["tickvals"] == [1, 3, 7, 15]
    assert Axis.of_counts("position", range(1, 16)).layout()["tickvals"] == [1, 5, 10, 15]


def test_text_becomes_markup_only_through_escaping():
    assert tag("p", "<b>", tag("i", "&"), None, class_='a"b') == '<p class="a&quot;b">&lt;b&gt;<i>&amp;</i></p>'
    assert joined(["<", Html("<br>")]) == "&lt;<br>"
    assert tag("td", "x" + tag("b", "y")) == "<td>x&lt;b&gt;y&lt;/b&gt;</td>"
    assert tag("details", open=True) == "<details open></details>"
    assert tag("p", hidden=False, title=None, tabindex=0) == '<p tabindex="0"></p>'


def test_standings_of_the_example():
    first, second = groups(tune_example())
    outcomes = {standing.setting.workload: standing.outcome for standing in first.ordinary}
    assert outcomes == {
        "code_edit": Outcome.PAYS,
        "code": Outcome.PAYS,
        "maths": Outcome.TIE,
        "prose": Outcome.OFF,
        "chat": Outcome.UNDECIDED,
    }
    assert [standing.setting.workload for standing in first.control] == ["repeat"]
    assert [standing.outcome for standing in second.ordinary] == [Outcome.PAYS, Outcome.OFF]
    assert first.ordinary[0].pick.cell.candidate.label == "suffix N=7"
    assert first.ordinary[3].pick is None
    assert first.ordinary[3].best.cell.candidate.label == "draft_model (Qwen2.5-0.5B) N=1"
    assert first.ordinary[3].off_figures.throughput == OFF_RATE
    assert first.ordinary[4].off_figures is None
    assert first.ordinary[4].why_undecided == "too few pairs"


def test_what_was_not_measured_is_said_once_for_each_reason():
    found = notes.shortfalls(tune_example())
    assert [shortfall.num_cells for shortfall in found[:2]] == [0, 0]
    assert sum(shortfall.num_cells for shortfall in found) == sum(
        cell.interval is None for cell in tune_example().cells
    )
    assert len({(shortfall.state, shortfall.reason) for shortfall in found}) == len(found)
    few = next(shortfall for shortfall in found if shortfall.state == "too few pairs")
    assert (few.workloads, few.num_cells) == (("maths", "chat"), 3)


def test_the_verdict_counts_settings_and_names_best_and_worst():
    said = verdict(tune_example())
    assert said.startswith("Drafting pays in 3 of 7 settings; plain decoding is fastest in 2, it is a tie in 1 and ")
    assert "suffix N=7 on code_edit, T=0, 1 at a time, 2.46×" in said
    assert "ngram N=15 on prose, T=0, 1 at a time, 0.55×" in said
    assert "repeat" not in said


def test_a_setting_of_spoiled_cells_is_undecided_by_name():
    result = tune_example()
    spoiled = next(cell for cell in result.cells if cell.state is CellState.SPOILED)
    only = dataclasses.replace(result, cells=(spoiled,))
    standing = Standing.of(only, Setting(TARGET, "maths", 0.0, 1))
    assert standing.outcome is Outcome.UNDECIDED
    assert standing.why_undecided == "spoiled"
