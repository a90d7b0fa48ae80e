"""A part of a corpus against plain counts of every substring."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.corpus.context_order import order_contexts
from forerun.corpus.corpus_part import CorpusPart
from forerun.corpus.separated import separated
from support.substring_counts import Counts

sequences_of_tokens = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=25), min_size=1, max_size=5)
texts = st.lists(st.integers(0, 3), max_size=30)


def part_of(sequences: Sequence[Sequence[int]], max_depth: int) -> CorpusPart:
    return CorpusPart(separated([np.array(one, dtype=np.int32) for one in sequences]), max_depth)


def places(sequences: Sequence[Sequence[int]], context: tuple[int, ...]) -> list[int]:
    """Last positions of a context among those that something follows, in the part's text: one separator in front of
    each sequence."""
    found, base = [], 1
    for sequence in sequences:
        for end in range(len(context), len(sequence)):
            if tuple(sequence[end - len(context) : end]) == context:
                found.append(base + end - 1)
        base += len(sequence) + 1
    return found


def check_part(sequences: Sequence[Sequence[int]], max_depth: int, text: Sequence[int]) -> None:
    """Matches of a text's end, what follows each and where, down to the depth."""
    part, counts = part_of(sequences, max_depth), Counts(sequences, max_depth)
    matches = part.match(text, max_depth)
    lengths = [length for match in reversed(matches) for length in range(match.shortest, match.longest + 1)]
    known = [n for n in range(1, min(len(text), max_depth) + 1) if counts.count.get(tuple(text[-n:]))]
    assert lengths == known, "every match length once, shortest last"
    assert len({part.count(match.state) for match in matches}) == len(matches), "equal counts are one match"
    for match in matches:
        for length in range(match.shortest, match.longest + 1):
            check_state(part, match.state, counts, tuple(text[-length:]))
        where = places(sequences, tuple(text[-match.longest :]))
        if where:
            assert part.occurrence(match.state, newest=True) == where[-1]
            assert part.occurrence(match.state, newest=False) == where[0]
        else:
            assert part.continuation(part.occurrence(match.state, newest=True), 1) == []


def check_state(part: CorpusPart, state: int, counts: Counts, context: tuple[int, ...]) -> None:
    assert part.count(state) == counts.count[context]
    if len(context) == counts.max_depth:
        return
    ranked = counts.ranked(context)
    followers = list(part.followers(state))
    assert [(token, count) for token, count, _ in followers] == [(key[-1], counts.count[key]) for key in ranked]
    assert list(part.followers(state, 2)) == [one for one in followers if one[1] >= 2]
    assert part.highest_count(state) == (counts.count[ranked[0]] if ranked else 0)
    for (_, count, behind), key in zip(followers, ranked, strict=True):
        assert part.count(behind) == count
        check_state(part, behind, counts, key)
    path, expected = context, []
    while len(path) < counts.max_depth and (ranked := counts.ranked(path)):
        path = ranked[0]
        expected.append(counts.count[path])
    num_tokens = counts.max_depth - len(context)
    assert part.most_frequent_path(state, num_tokens, 0) == (list(path[len(context) :]), expected)


@settings(max_examples=300, deadline=None)
@given(sequences_of_tokens, st.integers(1, 9), texts)
def test_what_a_part_says_is_what_counting_says(sequences: list[list[int]], max_depth: int, text: list[int]) -> None:
    check_part(sequences, max_depth, text)


@pytest.mark.parametrize("num_cases", [60, pytest.param(3_000, marks=pytest.mark.slow)])
def test_longer_and_more_repetitive_texts(num_cases: int) -> None:
    rng = random.Random(2)
    for _ in range(num_cases):
        line = [rng.randrange(6) for _ in range(rng.randrange(1, 12))]
        sequences = []
        for _ in range(rng.randrange(1, 6)):
            text = line * rng.randrange(1, 8)
            for _ in range(rng.randrange(4)):
                text[rng.randrange(len(text))] = rng.randrange(6)
            sequences.append(text[rng.randrange(len(text)) :])
        check_part(sequences, rng.choice([1, 2, 3, 5, 8, 11, 16]), rng.choice(sequences) + line[: rng.randrange(3)])


@settings(max_examples=200, deadline=None)
@given(sequences_of_tokens, st.integers(1, 9))
def test_contexts_are_in_order_with_their_shared_lengths(sequences: list[list[int]], max_depth: int) -> None:
    text = np.array([-1, *(token for one in sequences for token in [*one, -1])], dtype=np.int32)
    order = order_contexts(text, max_depth)

    def context(position: int) -> tuple[int, ...]:
        return tuple(text[position - order.room[position] + 1 : position + 1][::-1][:max_depth].tolist())

    contexts = [context(position) for position in order.positions]
    assert sorted(order.positions) == [i for i, token in enumerate(text) if token >= 0]
    assert contexts == sorted(contexts)
    for k in range(1, len(contexts)):
        a, b = contexts[k - 1], contexts[k]
        shared = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        assert order.shared[k] == shared


@settings(max_examples=100, deadline=None)
@given(sequences_of_tokens)
def test_sequences_come_back_as_they_went_in(sequences: list[list[int]]) -> None:
    part = part_of(sequences, 4)
    assert [one.tolist() for one in part.sequences()] == sequences
    assert part.num_tokens == sum(map(len, sequences))


def texts_of_all_kinds(num_tokens: int) -> dict[str, list[int]]:
    rng = random.Random(4)
    line = [rng.randrange(1000) for _ in range(500)]
    return {
        "one token": [7] * num_tokens,
        "one line": line * (num_tokens // 500),
        "noise": [rng.randrange(50_000) for _ in range(num_tokens)],
        "two tokens": [rng.randrange(2) for _ in range(num_tokens)],
        "many short": [rng.randrange(3) for _ in range(num_tokens)],
    }


@pytest.mark.parametrize("kind", texts_of_all_kinds(500))
def test_a_token_costs_at_most_a_hundred_bytes(kind: str) -> None:
    tokens = texts_of_all_kinds(20_000)[kind]
    step = 3 if kind == "many short" else len(tokens)
    part = part_of([tokens[i : i + step] for i in range(0, len(tokens), step)], 64)
    assert part.num_bytes <= 100 * len(tokens) + 1_000
