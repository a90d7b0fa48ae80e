"""A corpus that is fed while it is read: what takes time is done elsewhere, and when it is taken over is fixed."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from forerun.corpus import corpus as corpus_module
from forerun.corpus import join as join_module
from forerun.corpus.context_order import Ints
from forerun.corpus.corpus import Corpus
from forerun.corpus.corpus_part import CorpusPart
from forerun.drafters.base import DraftLimit, DraftRequest
from forerun.drafters.registry import build
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.types import Draft

DEPTH = 5


@pytest.fixture
def tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins and cuts as they happen to a large corpus, in a small one."""
    monkeypatch.setattr(corpus_module, "SMALL_PART", 12)
    monkeypatch.setattr(join_module, "TOKENS_A_PROPOSAL", 32)


def shape(corpus: Corpus) -> list[list[int]]:
    return [part.lengths.tolist() for part in corpus.parts]


def outputs(seed: int, num: int = 200) -> list[tuple[int, list[int]]]:
    """Texts, each with how many proposals were made before it came."""
    rng = random.Random(seed)
    return [(rng.choice([0, 3, 20]), [rng.randrange(9) for _ in range(rng.randrange(1, 30))]) for _ in range(num)]


def is_in_order(some: list[list[int]], fed: list[list[int]]) -> bool:
    rest = iter(fed)
    return all(one in rest for one in some)


@pytest.mark.usefixtures("tiny_parts")
@pytest.mark.parametrize("seed", range(10))
def test_a_fed_corpus_keeps_its_bounds_its_order_and_few_parts(seed: int) -> None:
    max_tokens, max_sequences = random.Random(seed).choice([(2_000, 90), (700, 1_000), (900, 60)])
    corpus, fed, now, most = Corpus(DEPTH, max_tokens, max_sequences), list[list[int]](), 0, 0
    for num_proposals, output in outputs(seed):
        now += num_proposals
        corpus.feed(output, now)
        fed.append(output)
        assert corpus.num_tokens <= max_tokens
        assert corpus.num_sequences <= max_sequences
        read = [one.tolist() for part in corpus.parts for one in part.sequences()]
        assert is_in_order(read, fed)
        most = max(most, len(corpus.parts))
    assert most <= 2 * corpus_module.MAX_PARTS, "outputs pile up no longer than until they are due"
    corpus.ingest([[1]])
    held = [one.tolist() for part in corpus.parts for one in part.sequences()]
    assert held == [*fed, [1]][-len(held) :], "oldest out first, and nothing is lost on the way"
    share = max(corpus.num_tokens / max_tokens, corpus.num_sequences / max_sequences)
    assert share > 0.75, "no more is given up than a ninth and what is kept free"


@pytest.mark.usefixtures("tiny_parts")
@pytest.mark.parametrize("seed", range(3))
def test_slow_threads_change_nothing_that_is_read(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made, rng = join_module._made, random.Random(seed)

    def slowly(*args: Any) -> CorpusPart:
        time.sleep(rng.choice([0, 0.002, 0.01]))
        return made(*args)

    def shapes() -> list[list[list[int]]]:
        corpus, now, found = Corpus(DEPTH, 600, 100), 0, []
        for num_proposals, output in outputs(seed, 100):
            for _ in range(num_proposals):
                now += 1
                corpus.adopt_due(now)
                found.append(shape(corpus))
            corpus.feed(output, now)
            found.append(shape(corpus))
        return found

    quick = shapes()
    monkeypatch.setattr(join_module, "_made", slowly)
    assert shapes() == quick
    assert len({len(one) for one in quick}) > 2, "joined and unjoined states were compared"


@pytest.mark.parametrize("max_tokens", [4_000, 100_000])
def test_feeding_indexes_little_on_the_thread_that_feeds(max_tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    here, sizes = threading.get_ident(), dict[bool, list[int]]()
    begun = CorpusPart.__init__

    def noted(part: CorpusPart, text: Ints, max_depth: int) -> None:
        sizes.setdefault(threading.get_ident() == here, []).append(len(text))
        begun(part, text, max_depth)

    monkeypatch.setattr(CorpusPart, "__init__", noted)
    corpus, rng, now = Corpus(DEPTH, max_tokens, 10_000), random.Random(0), 0
    for _ in range(60):
        output = [rng.randrange(50) for _ in range(rng.choice([50, 200, 900]))]
        for _ in range(len(output)):
            now += 1
            corpus.adopt_due(now)
        corpus.feed(output, now)
    num_separators = 100
    assert max(sizes[True]) <= corpus_module.SMALL_PART + num_separators
    assert max(sizes[False]) > 3_000
    assert len(corpus.parts) <= 8


def test_a_long_output_is_read_when_it_is_due() -> None:
    corpus = Corpus(DEPTH, 10_000, 10)
    corpus.feed(list(range(1_000)), now=5)
    (join,) = corpus.joins
    assert corpus.num_tokens == 1_000, "it counts from the start"
    corpus.adopt_due(join.due - 1)
    assert corpus.parts == []
    corpus.adopt_due(join.due)
    assert shape(corpus) == [[1_000]]
    assert corpus.joins == []


def test_what_fails_on_the_thread_is_raised_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> CorpusPart:
        raise MemoryError("no room to index")

    monkeypatch.setattr(join_module, "_made", failing)
    corpus = Corpus(DEPTH, 10_000, 10)
    corpus.feed(list(range(1_000)), now=0)
    with pytest.raises(MemoryError, match="no room to index"):
        corpus.adopt_due(1_000)


@pytest.mark.parametrize("method", ["ngram", "suffix"])
@pytest.mark.parametrize("session", ["", "a"])
def test_proposals_are_the_clock(method: str, session: str) -> None:
    drafter = build(method, {"feeds_corpus": True})
    answer = list(range(100, 1_100))
    first = drafter.begin(_request(session))
    drafter.observe(first, answer, None)
    drafter.end(first)
    second = drafter.begin(_request(session))
    drafter.observe(second, answer[500:510], None)
    num_missed = 0
    while (draft := drafter.propose([second], [DraftLimit(4, 4)])[0]) == Draft():
        num_missed += 1
        assert num_missed < 100
    assert num_missed == join_module.DUE_AFTER + 1_000 // join_module.TOKENS_A_PROPOSAL - 1
    assert list(draft.tokens) == answer[510:514]


def test_many_sessions_hold_no_more_than_one_bound() -> None:
    drafter = build("ngram", {"feeds_corpus": True, "max_corpus_tokens": 2_000})
    rng = random.Random(0)
    for _ in range(60):
        state = drafter.begin(_request(rng.choice("abcdef")))
        drafter.observe(state, [rng.randrange(90) for _ in range(rng.randrange(1, 700))], None)
        drafter.end(state)
        drafter.propose([state] * 20, [DraftLimit(4, 4)] * 20)
        held = [corpus.num_tokens for corpus in drafter.corpora._sessions.values()]
        assert 0 < sum(held) <= 2_000


def _request(session: str) -> DraftRequest:
    sampler = KeyedSampler(SamplingParams(), seed=0, choice=0, prompt=(), eos_token_ids=(), vocab_size=2_000)
    return DraftRequest(0, (), sampler, session)
