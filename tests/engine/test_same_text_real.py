"""The contract on SmolLM2: its ids don't depend on drafting."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from forerun.engine.drafting import Drafting
from forerun.models.catalog import DEFAULT_MODEL
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts
from support.pairwise import Row, pairwise, whole_product
from support.same_text import Said, assert_same, say, say_plainly

pytestmark = pytest.mark.real

CODE = "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n    return"
TEXTS = [
    "Once",
    "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is",
    "one two three four five six seven eight nine ten " * 6,
    "Write the same list again: apples, pears, plums, cherries.\nList: apples, pears, plums,",
    CODE,
]
AXES: dict[str, Any] = {
    "drafts": [("ngram", "chain"), ("suffix", "chain"), ("suffix", "tree")],
    "n": [1, 3, 7, 15],
    "temperature": [0.0, 0.8],
    "batch": [1, 5],
    "hits_prefixes": [False, True],
}


@cache
def model() -> LoadedTarget:
    return load_target(DEFAULT_MODEL)


@cache
def prompts() -> list[tuple[int, ...]]:
    return [tuple(model().tokenizer.encode(text)) for text in TEXTS]


def params_of(temperature: float) -> SamplingParams:
    return SamplingParams(temperature=temperature, seed=3, max_tokens=24)


@cache
def plain(temperature: float) -> list[Said]:
    return say_plainly(model(), prompts(), params_of(temperature))


def check(row: Row) -> RoundCounts:
    method, shape = row["drafts"]
    num_prompts = row["batch"]
    found = say(
        model(),
        prompts()[-num_prompts:],
        params_of(row["temperature"]),
        Drafting(
            method,
            row["n"],
            is_tree=shape == "tree",
            knobs={"feeds_corpus": True} if method == "suffix" else {},
        ),
        hits_prefixes=row["hits_prefixes"],
        row_budget=96,
    )
    assert_same(found, plain(row["temperature"])[-num_prompts:])
    return found.counts


def check_all(rows: list[Row]) -> None:
    counts = sum((check(row) for row in rows), RoundCounts())
    assert 10 < counts.accepted < counts.drafted - 10


def test_smollm2_says_what_it_says_without_drafts() -> None:
    check_all(pairwise(AXES))


@pytest.mark.slow
@pytest.mark.parametrize("drafts", AXES["drafts"], ids="-".join)
def test_smollm2_says_the_same_over_the_whole_grid(drafts: tuple[str, str]) -> None:
    check_all([row for row in whole_product(AXES) if row["drafts"] == drafts])
