"""The table of methods: names, knobs and N are checked before anything runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from forerun.drafters.knobs import knobs_of
from forerun.drafters.ngram.drafter import NgramDrafter
from forerun.drafters.registry import METHODS, build, check_num_speculative_tokens, find_method
from forerun.errors import ForerunError


@pytest.mark.parametrize("name", METHODS)
def test_every_method_stands_under_its_own_name_with_a_grid_it_can_draft(name: str) -> None:
    info = METHODS[name].info
    assert info.name == name
    assert info.summary
    METHODS[name].config()
    for num_speculative_tokens in info.default_grid:
        check_num_speculative_tokens(info, num_speculative_tokens)


@pytest.mark.parametrize(("name", "refused"), [("off", [1, -1]), ("ngram", [0, 64, -3]), ("draft_model", [0, 32])])
def test_an_n_out_of_range_is_refused_with_the_range(name: str, refused: list[int]) -> None:
    for num_speculative_tokens in refused:
        with pytest.raises(ForerunError, match=f"for method {name}; found N = {num_speculative_tokens};"):
            check_num_speculative_tokens(find_method(name).info, num_speculative_tokens)


def test_an_unknown_method_is_answered_with_those_that_exist() -> None:
    with pytest.raises(ForerunError, match=r"off, ngram, suffix, draft_model.*found 'eagle'"):
        build("eagle")


def test_an_unknown_knob_is_answered_with_those_that_exist() -> None:
    with pytest.raises(
        ForerunError, match=r"a knob of ngram \(corpus, .*, min_n, max_n, occurrence, allow_overlap\); found depth"
    ):
        build("ngram", {"depth": 3})
    with pytest.raises(ForerunError, match=r"a knob of off \(none\)"):
        build("off", {"min_n": 3})


def test_text_from_flags_is_read_as_the_knobs_own_type() -> None:
    drafter = build("ngram", {"min_n": "3", "max_n": 5, "occurrence": "earliest", "allow_overlap": "true"})
    assert isinstance(drafter, NgramDrafter)
    config = drafter.config
    assert (config.min_n, config.max_n, config.occurrence, config.allow_overlap) == (3, 5, "earliest", True)


@pytest.mark.parametrize("knobs", [{"min_n": "three"}, {"min_n": 2.5}, {"occurrence": "newest"}, {"allow_overlap": 7}])
def test_a_value_of_another_type_is_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(ForerunError, match=f"a value for ngram's knob {next(iter(knobs))}"):
        build("ngram", knobs)


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_the_documented_knobs_are_those_of_the_method(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "retrieval.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| (?:both|{name}) \| `(\w+)` \| (.+?) \| (.+) \|$", text, re.MULTILINE)
    expected = {
        (knob.name, str(knob.default).lower() or "none", knob.summary) for knob in knobs_of(METHODS[name].config)
    }
    assert {(knob, default.replace(",", ""), summary) for knob, default, summary in rows} == expected
