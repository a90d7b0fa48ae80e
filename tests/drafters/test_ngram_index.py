"""Prompt lookup against a scan of the whole text, and its cost against the context."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.drafters.ngram.config import NgramConfig
from forerun.drafters.ngram.ngram_index import NgramIndex
from forerun.errors import ForerunError


def scan(tokens: Sequence[int], config: NgramConfig) -> int | None:
    """The specification: the longest match, then the latest or earliest; its start and end from a plain scan."""
    for n in range(config.max_n, config.min_n - 1, -1):
        last_start = len(tokens) - n - (1 if config.allow_overlap else n)
        starts = [s for s in range(last_start + 1) if tokens[s : s + n] == tokens[len(tokens) - n :]]
        if starts:
            return (starts[-1] if config.occurrence == "latest" else starts[0]) + n
    return None


configs = st.builds(
    lambda low, more, occurrence, overlap: NgramConfig(low, low + more, occurrence, overlap),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from(["latest", "earliest"]),
    st.booleans(),
)
texts = st.lists(st.integers(0, 2), max_size=60)


@settings(max_examples=300, deadline=None)
@given(configs, texts)
def test_every_prefix_matches_what_a_scan_finds(config: NgramConfig, tokens: list[int]) -> None:
    index = NgramIndex(config)
    for length, token in enumerate(tokens):
        index.append(token)
        assert index.continuation() == scan(tokens[: length + 1], config)


@settings(max_examples=200, deadline=None)
@given(configs, texts, texts, texts, st.integers(0, 60))
def test_cut_and_copied_indexes_are_those_of_their_text(
    config: NgramConfig, tokens: list[int], mine: list[int], theirs: list[int], length: int
) -> None:
    index = NgramIndex(config)
    for token in tokens:
        index.append(token)
    index.truncate(length)
    kept = tokens[:length]
    twin = index.copy()
    for own, token in [(index, token) for token in mine] + [(twin, token) for token in theirs]:
        own.append(token)
    for own, text in ((index, kept + mine), (twin, kept + theirs)):
        assert own.tokens == text
        assert own.continuation() == scan(text, config)
    index.truncate(0)
    assert not any(index._newest.values())


class CountingDict(dict[Any, Any]):
    """A dictionary that counts how often it is asked or written."""

    num_operations = 0

    def get(self, *args: Any) -> Any:
        CountingDict.num_operations += 1
        return super().get(*args)

    def __setitem__(self, key: Any, value: Any) -> None:
        CountingDict.num_operations += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        CountingDict.num_operations += 1
        super().__delitem__(key)


@pytest.mark.parametrize("occurrence", ["latest", "earliest"])
def test_cost_follows_the_new_tokens_and_not_the_context(occurrence: Any) -> None:
    rng = random.Random(1)
    num_operations = []
    for context in (50, 5_000):
        index = NgramIndex(NgramConfig(2, 4, occurrence))
        index._newest = {n: CountingDict() for n in index._newest}
        for _ in range(context):
            index.append(rng.randrange(3))
        CountingDict.num_operations = 0
        for _ in range(10):
            index.append(rng.randrange(3))
            index.continuation()
        index.truncate(context)
        num_operations.append(CountingDict.num_operations)
    assert num_operations[0] == num_operations[1] == 10 * 3 * 3


@pytest.mark.parametrize("knobs", [{"min_n": 0}, {"min_n": 5, "max_n": 4}, {"occurrence": "newest"}])
def test_wrong_knobs_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(ForerunError, match="expected"):
        NgramConfig(**knobs)
