"""Same bytes: logits of a row don't depend on how many rows were beside it, whose they were or how work was cut."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from forerun.models.base import AttentionGroup, PassInput
from forerun.models.decoder import Decoder
from support.passes import Chunk, batch_of, run_chunked
from support.tiny_models import TINY_MODELS, random_tokens

NUM_TOKENS = 140  # three key blocks, the last one partly filled
SAMPLE = ["llama_biased", "qwen2_sliding", "gemma3"]
ALL = [tiny.name for tiny in TINY_MODELS]
TinyTarget = Callable[..., Decoder]


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


_references: dict[tuple[int, tuple[int, ...]], tuple[Decoder, Tensor]] = {}


def by_token(target: Decoder, tokens: list[int]) -> Tensor:
    """The reference: one row a pass. Kept with its target, so that no other can take its id."""
    key = (id(target), tuple(tokens))
    if key not in _references:
        _references[key] = (target, run_chunked(target, tokens, 1))
    return _references[key][1]


@pytest.mark.parametrize("name", SAMPLE)
def test_chunk_sizes(name: str, dtype: torch.dtype, tiny_target: TinyTarget) -> None:
    target, tokens = tiny_target(name, dtype), random_tokens(NUM_TOKENS)
    expected = by_token(target, tokens)
    for size in (5, 8, 17, NUM_TOKENS):
        assert torch.equal(run_chunked(target, tokens, size), expected), f"chunks of {size}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_row_count(name: str, dtype: torch.dtype, tiny_target: TinyTarget) -> None:
    target, tokens = tiny_target(name, dtype), random_tokens(NUM_TOKENS)
    expected = by_token(target, tokens)
    for threads in (1, 2, 3, 4):
        torch.set_num_threads(threads)
        for size in range(1, 41):
            assert torch.equal(run_chunked(target, tokens, size), expected), f"chunks of {size}, {threads} threads"


@pytest.mark.parametrize("name", SAMPLE)
def test_thread_counts(name: str, dtype: torch.dtype, tiny_target: TinyTarget) -> None:
    target, tokens = tiny_target(name, dtype), random_tokens(NUM_TOKENS)
    torch.set_num_threads(1)
    expected = run_chunked(target, tokens, 37)
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert torch.equal(run_chunked(target, tokens, 37), expected), f"{threads} threads"


@pytest.mark.parametrize("name", SAMPLE)
def test_neighbours_their_order_and_where_they_are_stored(
    name: str, dtype: torch.dtype, tiny_target: TinyTarget
) -> None:
    target = tiny_target(name, dtype)
    sequences = [random_tokens(length, seed) for seed, length in enumerate((NUM_TOKENS, 64, 20, 3))]
    expected = [by_token(target, tokens) for tokens in sequences]
    shuffle = random.Random(5)
    for _ in range(2):
        store = target.new_store(400)
        slots = torch.randperm(400, generator=torch.Generator().manual_seed(shuffle.randrange(1000)))
        places = list(torch.split(slots[: sum(map(len, sequences))], [len(tokens) for tokens in sequences]))
        done = [0] * len(sequences)
        while any(done[index] < len(tokens) for index, tokens in enumerate(sequences)):
            waiting = [index for index, tokens in enumerate(sequences) if done[index] < len(tokens)]
            chosen = shuffle.sample(waiting, shuffle.randint(1, len(waiting)))
            sizes = [shuffle.randint(1, 30) for _ in chosen]
            chunks = [
                Chunk(sequences[index][done[index] : done[index] + size], done[index], places[index])
                for index, size in zip(chosen, sizes)
            ]
            logits = target.forward(batch_of(chunks), store).logits
            for index, rows in zip(chosen, torch.split(logits, [len(chunk.tokens) for chunk in chunks])):
                start = done[index]
                done[index] += len(rows)
                assert torch.equal(rows, expected[index][start : start + len(rows)])


@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.parametrize("prefix", [5, 62])
def test_tree_paths_equal_chains(name: str, prefix: int, dtype: torch.dtype, tiny_target: TinyTarget) -> None:
    target = tiny_target(name, dtype)
    prompt = random_tokens(prefix)
    # The anchor (row 0), then two children of it, of which the first has a chain of two and another child.
    tokens, parents = [9, 10, 11, 12, 13, 14], [None, 0, 0, 1, 3, 1]
    paths = {2: (0, 2), 4: (0, 1, 3, 4), 5: (0, 1, 5)}
    store = target.new_store(300)
    slots = torch.randperm(300, generator=torch.Generator().manual_seed(3))
    committed, own = slots[:prefix], slots[prefix : prefix + len(tokens)]
    run_chunked(target, prompt, 16, slots, store)
    covered: set[int] = set()
    groups = []
    for path in paths.values():
        rows = tuple(row for row in path if row not in covered)
        covered |= set(path)
        groups.append(AttentionGroup(rows, torch.cat([committed, own[list(path)]])))
    depths = [0, 1, 1, 2, 3, 2]
    assert [None if parent is None else depths[parent] + 1 for parent in parents][1:] == depths[1:]
    batch = PassInput(
        torch.tensor(tokens),
        prefix + torch.tensor(depths),
        own,
        (0,) * len(tokens),
        tuple(groups),
        tuple(range(len(tokens))),
        {0: 1},
    )
    tree = target.forward(batch, store).logits
    for path in paths.values():
        chain = by_token(target, prompt + [tokens[row] for row in path])
        assert torch.equal(tree[list(path)], chain[prefix:])


def test_only_wanted_rows_have_logits_and_the_same_bits(tiny_target: TinyTarget) -> None:
    target, tokens = tiny_target("llama_biased", torch.float32), random_tokens(40)
    batch = batch_of([Chunk(tokens, 0, torch.arange(40))])
    everything = target.forward(batch, target.new_store(40)).logits
    few = PassInput(batch.tokens, batch.positions, batch.slots, batch.owners, batch.groups, (3, 20, 39), {0: 40})
    assert torch.equal(target.forward(few, target.new_store(40)).logits, everything[[3, 20, 39]])
    none = PassInput(batch.tokens, batch.positions, batch.slots, batch.owners, batch.groups, (), {0: 40})
    assert target.forward(none, target.new_store(40)).logits.shape == (0, target.traits.vocab_size)


def test_another_owner_cannot_be_seen(tiny_target: TinyTarget) -> None:
    """The check behind the check: a row that does see other keys gets other logits."""
    target, tokens = tiny_target("llama_biased", torch.float32), random_tokens(30)
    expected = by_token(target, tokens)
    store = target.new_store(60)
    run_chunked(target, random_tokens(30, 1), 30, torch.arange(30, 60), store)
    wrong = torch.arange(30)
    run_chunked(target, tokens[:29], 29, wrong, store)
    wrong[7] = 40
    row = target.forward(batch_of([Chunk(tokens[29:], 29, wrong)]), store).logits
    assert not torch.equal(row[0], expected[29])
