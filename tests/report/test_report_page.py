"""The report page: its words as a golden file, its nesting, that it fetches nothing, and that data stays data."""

import dataclasses
import errno
import json
import os
import re
from pathlib import Path

import pytest

from forerun.conditions import Conditions
from forerun.drafters.registry import METHODS as REGISTRY
from forerun.errors import ForerunError
from forerun.report.html import page, write_report
from forerun.sweep import serialise
from forerun.sweep.results import CellState, TuneResult
from support.golden import assert_golden
from support.page_outline import PageOutline
from support.tune_example import METHODS, TARGET, tune_example

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = """x</script><script>alert(1)</script><img src=x onerror='y()'> "quoted" & [b]"""
# What a browser fetches when it meets it.
FETCHING = {"src", "srcset", "poster", "data", "action", "formaction", "background", "xlink:href", "ping"}


@pytest.fixture(scope="module")
def text() -> str:
    return page(tune_example(), METHODS)


@pytest.fixture(scope="module")
def outline(text) -> PageOutline:
    return PageOutline(text)


def test_what_the_page_says(outline):
    assert_golden(GOLDEN / "report.txt", outline.text)


def test_nothing_is_fetched(text, outline):
    for tag, attributes in outline.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "video", "audio", "base"}
        assert not FETCHING & attributes.keys()
        assert attributes.get("href", "#").startswith("#")
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)
    assert "url(" not in style
    assert "@import" not in style
    policy = next(attributes["content"] for _, attributes in outline.elements if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def test_the_library_is_there_once(text):
    assert text.count("plotly.js v") == 1


def test_links_and_figures_lead_somewhere(outline):
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in outline.elements:
        target = attributes.get("data-figure") or attributes.get("href", "").removeprefix("#")
        assert not target or target in ids
    plots = [attributes for _, attributes in outline.elements if attributes.get("class") == "plot"]
    assert len(plots) > 10
    assert all(attributes["aria-label"] and attributes["role"] == "img" for attributes in plots)


def test_only_measured_cells_have_a_number_of_their_own(outline):
    cells = outline.map_cells
    planned = [(kind, said) for kind, said in cells if kind != "unplanned"]
    assert len(planned) == len(tune_example().cells)
    for kind, said in planned:
        number = re.sub(r"n=\d+", "", said).strip()
        if re.match(r"(up|down)-[1-5]", kind):
            assert re.fullmatch(r"▼?\d\.\d\d", number)
            assert number.startswith("▼") == kind.startswith("down")
        elif kind == "predicted":
            assert re.fullmatch(r"≈\d\.\d\d predicted", number)
        else:
            assert not re.search(r"\d", number), (kind, said)
    assert all(said == "" for kind, said in cells if kind == "unplanned")
    names = {re.sub(r" n=\d+", "", said) for _, said in planned}
    for state in set(CellState) - {CellState.MEASURED}:
        assert state.value in names


def test_a_pick_is_marked_where_the_verdict_says(outline):
    picks = [said for kind, said in outline.map_cells if kind.endswith(" pick")]
    assert picks == ["2.46 n=12", "1.38 n=10", "1.24 n=9"]


def test_curves_have_no_bars_where_nothing_was_measured(outline):
    figures = [json.loads(script) for attributes, script in outline.scripts if attributes.get("type")]
    hollow = [
        trace
        for figure in figures
        for trace in figure["data"]
        if trace["mode"] == "markers" and trace["marker"]["symbol"].endswith("-open")
    ]
    assert hollow
    assert all("error_y" not in trace for trace in hollow)
    assert all("predicted" in text for trace in hollow for text in trace["hovertext"])


def hostile() -> TuneResult:
    """The example with markup in every name, reason and output."""
    plain = serialise.to_json(tune_example())
    for name in (TARGET, "Qwen2.5-0.5B", "code_edit", "no time left", "cold", "x = x + 1", "suffix"):
        plain = plain.replace(name, json.dumps(HOSTILE + name)[1:-1])
    return serialise.from_json(TuneResult, plain)


def test_markup_in_data_stays_text(outline):
    attacked = PageOutline(page(hostile(), METHODS))
    kinds = [tag for tag, _ in attacked.elements]
    assert kinds == [tag for tag, _ in outline.elements]
    assert not any(name.startswith("on") for _, attributes in attacked.elements for name in attributes)
    assert f"{HOSTILE}{TARGET}" in attacked.text
    for attributes, script in attacked.scripts:
        if attributes.get("type") == "application/json":
            names = [trace["name"] for trace in json.loads(script)["data"]]
            assert not any("<" in name for name in names)


def test_a_changed_text_is_on_the_first_screen():
    result = tune_example()
    broken = dataclasses.replace(result.cells[0], differing_prompts=("code_edit/003",))
    said = PageOutline(page(dataclasses.replace(result, cells=(broken, *result.cells[1:])), METHODS)).text
    first, _, _ = said.partition("== verdicts")
    assert "Bug: ngram N=1 on code_edit" in first
    assert "text identical" not in said


def test_an_empty_tune_is_a_page_too():
    empty = TuneResult("r", "h", "{}", False, Conditions(), (), (), (), (), (), (), (), (), (), 0)
    said = PageOutline(page(empty, [])).text
    assert "no ordinary workload" in said
    assert "undisclosed" in said
    assert "inflation is unknown here" in said


def test_writing_is_whole_or_nothing(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    write_report(tune_example(), target)
    whole = target.read_text(encoding="utf-8")
    assert PageOutline(whole).lines
    assert all(name in whole for name in REGISTRY)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ForerunError, match="No space left"):
        write_report(hostile(), target)
    assert target.read_text(encoding="utf-8") == whole
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_missing_directory_is_said_in_one_line(tmp_path):
    with pytest.raises(ForerunError, match="No such file") as error:
        write_report(tune_example(), tmp_path / "absent" / "report.html")
    assert "\n" not in str(error.value)
