"""SuffixDecoding against a reference that counts substrings and knows no tree."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.corpus import corpus as corpus_module
from forerun.drafters.base import DraftLimit, DraftRequest
from forerun.drafters.suffix.config import SuffixConfig
from forerun.drafters.suffix.drafter import SuffixDrafter, SuffixState
from forerun.errors import ForerunError
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.types import Draft
from support.substring_counts import Counts

NOTHING: tuple[tuple[int, ...], tuple[int, ...], float] = ((), (), 0.0)


def reference_chain(counts: Counts, match: tuple[int, ...], budget: int, floor: float) -> Any:
    path, total = match, 0
    while len(path) - len(match) < budget and (ranked := counts.ranked(path)):
        if counts.count[ranked[0]] / counts.count[match] < floor:
            break
        path = ranked[0]
        total += counts.count[path]
    tokens = path[len(match) :]
    return tokens, tuple(range(len(tokens))), total / counts.count[match]


def reference_tree(counts: Counts, match: tuple[int, ...], budget: int, depth: int, floor: float) -> Any:
    tokens: list[int] = []
    parents: list[int] = []
    total = num_found = 0
    frontier: list[tuple[int, int, tuple[int, ...], int]] = []

    def discover(path: tuple[int, ...], parent: int) -> None:
        nonlocal num_found
        for child in counts.ranked(path):
            if len(child) - len(match) <= depth and counts.count[child] / counts.count[match] >= floor:
                num_found += 1
                heapq.heappush(frontier, (-counts.count[child], num_found, child, parent))

    discover(match, 0)
    while frontier and len(tokens) < budget:
        negative, _, path, parent = heapq.heappop(frontier)
        tokens.append(path[-1])
        parents.append(parent)
        total -= negative
        discover(path, len(tokens))
    return tuple(tokens), tuple(parents), total / counts.count[match]


def is_enough(found: Any, limit: DraftLimit) -> bool:
    return bool(found[2] >= 0.9 * min(limit.num_tokens, limit.num_rows))


def reference(counts: Counts, text: Sequence[int], config: SuffixConfig, limit: DraftLimit) -> Any:
    """Best score over match lengths, ties to the longer, unless one is enough before.

    Lengths whose draft the depth does not cut come first, longest first, then the others, shortest first.
    """
    known = [n for n in range(1, min(len(text), config.max_depth - 1) + 1) if counts.count.get(tuple(text[-n:]))]
    rows = limit.num_rows if limit.is_tree else min(limit.num_tokens, limit.num_rows)

    def wanted(length: int) -> int:
        return min(rows, math.floor(config.alpha * length + config.offset))

    def is_whole(length: int) -> bool:
        return (limit.num_tokens if limit.is_tree else wanted(length)) <= config.max_depth - length

    whole = [length for length in known if is_whole(length)]
    best = NOTHING
    for length in [*reversed(whole), *(length for length in known if length not in whole)]:
        match = tuple(text[-length:])
        if limit.is_tree:
            found = reference_tree(counts, match, wanted(length), limit.num_tokens, config.min_token_prob)
        else:
            found = reference_chain(counts, match, wanted(length), config.min_token_prob)
        if found[2] > best[2] or (found[2] == best[2] and length not in whole):
            best = found
        if best[0] and is_enough(best, limit):
            break
    return best


def a_request(prompt: Sequence[int] = ()) -> DraftRequest:
    sampler = KeyedSampler(SamplingParams(), seed=0, choice=0, prompt=prompt, eos_token_ids=(), vocab_size=100)
    return DraftRequest(0, tuple(prompt), sampler)


def observed(drafter: SuffixDrafter, tokens: Sequence[int], num_prompt: int = 0) -> SuffixState:
    state = drafter.begin(a_request(tokens[:num_prompt]))
    drafter.observe(state, tokens, None)
    return state


configs = st.builds(
    SuffixConfig,
    max_depth=st.integers(2, 9),
    alpha=st.sampled_from([0.5, 1.0, 2.0]),
    offset=st.sampled_from([0.0, 1.0, -1.0]),
    min_token_prob=st.sampled_from([0.0, 0.1, 0.4, 0.6]),
)
limits = st.builds(
    lambda tokens, more, tree: DraftLimit(tokens, tokens + more, tree),
    st.integers(1, 6),
    st.integers(0, 6),
    st.booleans(),
)
texts = st.lists(st.integers(0, 3), max_size=40)


def check_against_reference(config: SuffixConfig, limit: DraftLimit, text: list[int], corpus: list[list[int]]) -> None:
    """One corpus of one part, and one that came sequence by sequence: the best of what counts itself, newest first."""
    for batches in ([corpus], [[one] for one in corpus]):
        drafter = SuffixDrafter(config)
        for batch in batches:
            drafter.ingest(batch)
        draft = drafter.propose([observed(drafter, text)], [limit])[0]
        best = reference(Counts([text], config.max_depth), text, config, limit)
        for part in reversed(drafter.corpus.parts):
            if is_enough(best, limit):
                break
            counts = Counts([one.tolist() for one in part.sequences()], config.max_depth)
            found = reference(counts, text, config, limit)
            best = found if found[2] > best[2] else best
        tokens, parents, score = best
        assert (draft.tokens, draft.parents) == (tokens, parents)
        assert sum(draft.survival or ()) == pytest.approx(score)


@pytest.fixture(autouse=True, scope="module")
def tiny_parts() -> Iterator[None]:
    """Texts this short would all be one part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_module, "SMALL_PART", 6)
        yield


@settings(max_examples=200, deadline=None)
@given(configs, limits, texts, st.lists(texts, max_size=4))
def test_drafts_are_those_of_plain_counting(
    config: SuffixConfig, limit: DraftLimit, text: list[int], corpus: list[list[int]]
) -> None:
    check_against_reference(config, limit, text, corpus)


@pytest.mark.parametrize("num_cases", [600, pytest.param(20_000, marks=pytest.mark.slow)])
def test_drafts_from_longer_texts_are_those_of_plain_counting(num_cases: int) -> None:
    """Texts longer than hypothesis likes them, where match lengths, sources and shapes compete."""
    rng = random.Random(1)
    for _ in range(num_cases):
        vocabulary = range(rng.choice([2, 3, 4, 8]))
        config = SuffixConfig(
            max_depth=rng.choice([4, 8, 24]),
            alpha=rng.choice([0.5, 1.0, 2.0]),
            offset=rng.choice([0.0, 1.0]),
            min_token_prob=rng.choice([0.05, 0.1, 0.3]),
        )
        num_tokens = rng.choice([1, 3, 7, 15])
        limit = DraftLimit(num_tokens, num_tokens * rng.choice([1, 2]), rng.random() < 0.7)
        corpus = [rng.choices(vocabulary, k=rng.randrange(1, 60)) for _ in range(rng.randrange(4))]
        check_against_reference(config, limit, rng.choices(vocabulary, k=rng.randrange(1, 60)), corpus)


@settings(max_examples=100, deadline=None)
@given(configs, limits, texts, texts, st.integers(0, 40))
def test_a_cut_state_drafts_like_a_fresh_one(
    config: SuffixConfig, limit: DraftLimit, text: list[int], rest: list[int], length: int
) -> None:
    drafter = SuffixDrafter(config)
    state = observed(drafter, text)
    state.truncate(length)
    drafter.observe(state, rest, None)
    fresh = observed(drafter, text[:length] + rest)
    assert drafter.propose([state], [limit]) == drafter.propose([fresh], [limit])


def test_one_earlier_occurrence_counts_for_half() -> None:
    """The end of the text is itself an occurrence: a property of the reference implementation too."""
    limit = DraftLimit(3, 3)
    text = [1, 2, 3, 4, 5, 6, 9, 1, 2, 3]
    half = SuffixDrafter(SuffixConfig(min_token_prob=0.5))
    assert half.propose([observed(half, text)], [limit])[0].tokens == (4, 5, 6)
    more = SuffixDrafter(SuffixConfig(min_token_prob=0.51))
    assert more.propose([observed(more, text)], [limit])[0] == Draft()


def test_the_corpus_is_cold_until_it_is_asked_for() -> None:
    limit = DraftLimit(4, 4)
    answer = [5, 6, 7, 8, 9, 10]
    cold, warm = SuffixDrafter(SuffixConfig()), SuffixDrafter(SuffixConfig(feeds_corpus=True))
    for drafter in (cold, warm):
        drafter.end(observed(drafter, [1, 2, *answer], num_prompt=2))
    again = [5, 6, 7]
    assert cold.propose([observed(cold, again)], [limit])[0] == Draft()
    draft = warm.propose([observed(warm, again)], [limit])[0]
    assert (draft.tokens, draft.source) == ((8, 9, 10), "suffix:corpus")
    assert warm.propose([observed(warm, [1, 2])], [limit])[0] == Draft(), "the prompt is not part of the corpus"
    cold.ingest([answer])
    assert cold.propose([observed(cold, again)], [limit])[0].tokens == (8, 9, 10)


@pytest.mark.parametrize(
    "knobs",
    [{"max_depth": 1}, {"alpha": -1.0}, {"offset": math.nan}, {"min_token_prob": 1.5}, {"max_corpus_tokens": -1}],
)
def test_wrong_knobs_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(ForerunError, match="expected"):
        SuffixConfig(**knobs)
