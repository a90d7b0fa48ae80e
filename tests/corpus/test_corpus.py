"""A corpus as it grows, is joined and forgets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.corpus import corpus as corpus_module
from forerun.corpus.corpus import Corpus
from forerun.drafters.base import DraftLimit, DraftRequest
from forerun.drafters.ngram.config import NgramConfig
from forerun.drafters.ngram.drafter import NgramDrafter
from forerun.drafters.registry import build
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.types import Draft

GROWTH = corpus_module.GROWTH
LIMIT = DraftLimit(4, 4)


@pytest.fixture
def tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins and cuts as they happen to a large corpus, in a small one."""
    monkeypatch.setattr(corpus_module, "SMALL_PART", 4)


def request(prompt: list[int], session: str = "") -> DraftRequest:
    sampler = KeyedSampler(SamplingParams(), seed=0, choice=0, prompt=prompt, eos_token_ids=(), vocab_size=1000)
    return DraftRequest(0, tuple(prompt), sampler, session)


def draft_of(drafter: Any, text: list[int], session: str = "", limit: DraftLimit = LIMIT) -> Draft:
    state = drafter.begin(request(text, session))
    drafter.observe(state, text, None)
    draft: Draft = drafter.propose([state], [limit])[0]
    return draft


def finish(drafter: Any, prompt: list[int], output: list[int], session: str = "") -> None:
    state = drafter.begin(request(prompt, session))
    drafter.observe(state, prompt + output, None)
    drafter.end(state)


def held(corpus: Corpus) -> list[list[int]]:
    return [one.tolist() for part in corpus.parts for one in part.sequences()]


def shape(corpus: Corpus) -> list[list[int]]:
    return [part.lengths.tolist() for part in corpus.parts]


@pytest.mark.usefixtures("tiny_parts")
@pytest.mark.parametrize("seed", range(20))
def test_the_newest_sequences_are_held_within_the_bounds(seed: int) -> None:
    rng = random.Random(seed)
    max_tokens, max_sequences = rng.randrange(1, 200), rng.randrange(1, 30)
    corpus, fed = Corpus(3, max_tokens, max_sequences), list[list[int]]()
    for _ in range(60):
        new = [[rng.randrange(9) for _ in range(rng.randrange(12))] for _ in range(rng.randrange(1, 4))]
        corpus.ingest(new)
        fed += [one for one in new if 0 < len(one) <= max_tokens]
        kept = held(corpus)
        assert kept == fed[len(fed) - len(kept) :], "oldest out first"
        assert corpus.num_tokens == sum(map(len, kept)) <= max_tokens
        assert corpus.num_sequences == len(kept) <= max_sequences
        for older, newer in zip(corpus.parts, corpus.parts[1:], strict=False):
            assert older.num_tokens >= GROWTH * newer.num_tokens


def test_a_small_corpus_forgets_no_more_than_it_must() -> None:
    rng = random.Random(0)
    corpus, fed = Corpus(6, 70, 5), list[list[int]]()
    for _ in range(40):
        fed.append([rng.randrange(5) for _ in range(rng.randrange(1, 30))])
        corpus.ingest(fed[-1:])
        while len(fed) > 5 or sum(map(len, fed)) > 70:
            fed.pop(0)
        assert held(corpus) == fed


def test_a_large_corpus_forgets_a_ninth_at_once_and_keeps_few_parts() -> None:
    corpus = Corpus(4, 9_000, 9_000)
    fewest = 9_000
    for start in range(0, 40_000, 50):
        corpus.ingest([list(range(start, start + 50))])
        assert corpus.num_tokens <= 9_000
        assert len(corpus.parts) <= 3
        if start > 10_000:
            fewest = min(fewest, corpus.num_tokens)
    assert fewest >= 9_000 * 8 // 9 - 100


@pytest.mark.usefixtures("tiny_parts")
def test_the_same_texts_in_the_same_order_give_the_same_parts() -> None:
    rng = random.Random(1)
    texts = [[rng.randrange(5) for _ in range(rng.randrange(1, 20))] for _ in range(80)]
    first, second = Corpus(5, 300, 50), Corpus(5, 300, 50)
    for text in texts:
        first.ingest([text])
    for text in texts:
        second.ingest([text])
    assert shape(first) == shape(second)
    assert len(first.parts) > 1


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_outputs_feed_the_corpus_only_when_asked(method: str) -> None:
    cold, warm = build(method), build(method, {"feeds_corpus": True})
    for drafter in (cold, warm):
        finish(drafter, [1, 2], [5, 6, 7, 8, 9])
    assert draft_of(cold, [5, 6]) == Draft()
    draft = draft_of(warm, [5, 6])
    assert draft.tokens[:2] == (7, 8)
    assert draft.source == f"{method}:corpus"
    assert draft_of(warm, [1, 2]) == Draft(), "the prompt is not part of the corpus"


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_no_session_drafts_from_another(method: str) -> None:
    drafter = build(method, {"feeds_corpus": True})
    finish(drafter, [], [5, 6, 7, 8, 9], session="a")
    assert draft_of(drafter, [5, 6], session="a").tokens[:2] == (7, 8)
    assert draft_of(drafter, [5, 6], session="b") == Draft()
    assert draft_of(drafter, [5, 6]) == Draft()
    finish(drafter, [], [5, 6, 1, 1, 1])
    assert draft_of(drafter, [5, 6], session="b").tokens[:2] == (1, 1), "what names no session is for all"
    assert draft_of(drafter, [5, 6], session="a").tokens[:2] == (7, 8), "one's own session comes first"


def test_sessions_share_one_bound_and_the_one_fed_longest_ago_goes() -> None:
    drafter = build("suffix", {"feeds_corpus": True, "max_corpus_tokens": 10})
    for session, first in [("a", 10), ("b", 20), ("a", 30), ("c", 40)]:
        finish(drafter, [], list(range(first, first + 4)), session=session)
    assert draft_of(drafter, [10, 11], session="a") == Draft()
    assert draft_of(drafter, [20, 21], session="b") == Draft()
    assert draft_of(drafter, [40, 41], session="c").tokens == (42, 43)


def lookup(sequences: list[list[int]], text: list[int], config: NgramConfig, limit: int) -> tuple[int, list[int]]:
    """The longest match in finished texts that something follows, by occurrence: length and continuation."""
    for n in range(min(config.max_n, len(text)), config.min_n - 1, -1):
        found = [
            sequence[start + n : start + n + limit]
            for sequence in sequences
            for start in range(len(sequence) - n)
            if sequence[start : start + n] == text[-n:]
        ]
        if found:
            return n, found[-1] if config.occurrence == "latest" else found[0]
    return 0, []


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=15), max_size=4),
    st.lists(st.integers(0, 3), max_size=30),
    st.integers(1, 3),
    st.integers(0, 2),
    st.sampled_from(["latest", "earliest"]),
    st.booleans(),
)
def test_ngram_takes_the_longest_match_its_own_text_first(
    sequences: list[list[int]], text: list[int], min_n: int, more: int, occurrence: Any, is_joined: bool
) -> None:
    config = NgramConfig(min_n, min_n + more, occurrence)
    drafter = NgramDrafter(config)
    for batch in [sequences] if is_joined else [[one] for one in sequences]:
        drafter.ingest(batch)
    draft = draft_of(drafter, text)
    own = drafter.begin(request(text))
    drafter.observe(own, text, None)
    longest, start = own.index.match() or (0, 0)
    n, continuation = lookup(sequences, text, config, 4)
    assert list(draft.tokens) == (continuation if n > longest else text[start : start + 4] if longest else [])


@pytest.mark.usefixtures("tiny_parts")
@pytest.mark.parametrize("occurrence", ["latest", "earliest"])
def test_ngram_sees_all_parts_as_one_text(occurrence: Any) -> None:
    rng = random.Random(5)
    config = NgramConfig(1, 3, occurrence)
    for _ in range(40):
        drafter, sequences = NgramDrafter(config), list[list[int]]()
        for _ in range(rng.randrange(1, 12)):
            sequences.append([rng.randrange(4) for _ in range(rng.randrange(1, 15))])
            drafter.ingest(sequences[-1:])
        text = [9, rng.randrange(4), rng.randrange(4)]
        own = drafter.begin(request(text))
        drafter.observe(own, text, None)
        n, continuation = lookup(sequences, text, config, 4)
        if n > (own.index.match() or (0, 0))[0]:
            assert list(draft_of(drafter, text).tokens) == continuation


def test_negative_limits_are_refused() -> None:
    for method in ("ngram", "suffix"):
        with pytest.raises(Exception, match="corpus limits"):
            build(method, {"max_corpus_sequences": -1})
