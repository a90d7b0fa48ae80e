"""Cache: whatever is accepted, rejected, forked, freed or hit, the state equals a fresh prefill and nothing leaks."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.cache.block_pool import BlockPool, PoolExhaustedError
from forerun.cache.paged_cache import PagedCache
from forerun.cache.sequence import Sequence, Window
from forerun.models.base import AttentionGroup, PassInput
from support.toy_target import ToyTarget


class Driver:
    """Drives sequences through a cache at random and compares every logit with a fresh prefill."""

    def __init__(self, seed: int, *, cache_class: type[PagedCache] = PagedCache, is_recurrent: bool = False) -> None:
        self.random = random.Random(seed)
        self.target = ToyTarget(7, order=0, is_recurrent=is_recurrent)
        self.cache = cache_class(self.target, 40, 4)
        self.is_recurrent = is_recurrent
        self.live: list[tuple[Sequence, list[int]]] = []
        self.texts: list[list[int]] = [[self.random.randrange(7) for _ in range(9)]]

    def open(self) -> None:
        base = list(self.random.choice(self.texts))
        tokens = base[: self.random.randint(1, len(base))] + [self.random.randrange(7)]
        if len(tokens) < 40:
            self.live.append((self.cache.open(tokens), tokens))

    def fork(self) -> None:
        if self.live:
            sequence, tokens = self.random.choice(self.live)
            self.live.append((self.cache.fork(sequence), list(tokens)))

    def free(self) -> None:
        if self.live:
            sequence, tokens = self.live.pop(self.random.randrange(len(self.live)))
            self.texts.append(tokens)
            self.cache.free(sequence)

    def truncate(self) -> None:
        if self.live and not self.is_recurrent:
            sequence, tokens = self.random.choice(self.live)
            length = self.random.randint(0, sequence.num_computed)
            self.cache.truncate(sequence, length)
            del tokens[max(1, length) :]

    def rounds(self) -> None:
        """One batched pass over a few sequences; their windows close in a random order."""
        chosen = self.random.sample(self.live, min(len(self.live), self.random.randint(1, 3)))
        chosen = [(sequence, tokens) for sequence, tokens in chosen if len(tokens) < 40]
        parts = []
        for sequence, tokens in chosen:
            parents = [] if self.random.random() < 0.2 else self._parents(self.random.randint(1, 5))
            num_committed = len(tokens) - sequence.num_computed
            if num_committed < 1:
                continue
            drafted = [self.random.randrange(7) for _ in parents]
            try:
                window = self.cache.open_window(sequence, num_committed + len(parents))
            except PoolExhaustedError:
                continue
            parts.append((sequence, tokens, drafted, parents, window, num_committed))
        if parts:
            self._pass(parts)
        self.random.shuffle(parts)
        for sequence, tokens, drafted, parents, window, num_committed in parts:
            path = self._path(parents)
            kept = [*range(num_committed), *(num_committed + index for index in path)]
            self.cache.close_window(window, kept, num_committed)
            tokens += [drafted[index] for index in path] + [self.random.randrange(7)]
            self.cache.publish(sequence, tokens[: sequence.num_computed])

    def _parents(self, length: int) -> list[int]:
        if self.is_recurrent:
            return list(range(-1, length - 1))
        return [self.random.randint(-1, index - 1) for index in range(length)]

    def _path(self, parents: list[int]) -> list[int]:
        if not parents or self.random.random() < 0.2:
            return []
        path = [self.random.randrange(len(parents))]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        return path

    def _pass(self, parts: list) -> None:
        tokens, positions, slots, owners, groups, expected = [], [], [], [], [], []
        for sequence, text, drafted, parents, window, num_committed in parts:
            first = len(tokens)
            tokens += text[window.start :] + drafted
            paths = [[index] for index in range(len(drafted))]
            for path in paths:
                while parents[path[0]] >= 0:
                    path.insert(0, parents[path[0]])
            positions += range(window.start, len(text))
            positions += [len(text) - 1 + len(path) for path in paths]
            slots.append(window.slots)
            owners += [sequence.id] * (num_committed + len(drafted))
            committed = list(range(num_committed))
            groups.append(
                AttentionGroup(
                    tuple(first + row for row in committed), torch.cat([window.prefix_slots, window.slots[committed]])
                )
            )
            for index, path in enumerate(paths):
                rows = committed + [num_committed + step for step in path]
                groups.append(
                    AttentionGroup(
                        (first + num_committed + index,), torch.cat([window.prefix_slots, window.slots[rows]])
                    )
                )
            expected += [tuple(text[: window.start + row + 1]) for row in committed]
            expected += [tuple(text) + tuple(drafted[step] for step in path) for path in paths]
        batch = PassInput(
            torch.tensor(tokens),
            torch.tensor(positions),
            torch.cat(slots),
            tuple(owners),
            tuple(groups),
            tuple(range(len(tokens))),
            {part[0].id: part[5] for part in parts},
        )
        logits = self.target.forward(batch, self.cache.store).logits
        fresh = torch.stack([self.target._logits(text) for text in expected]).float()
        assert torch.equal(logits, fresh), "state differs from a fresh prefill"

    def run(self, num_steps: int) -> None:
        actions = [self.open, self.open, self.rounds, self.rounds, self.rounds, self.fork, self.free, self.truncate]
        for _ in range(num_steps):
            self.random.choice(actions)()
        while self.live:
            self.free()
        assert self.cache.pool.num_held == 0, "blocks leak"
        self.cache.pool.forget_idle()
        assert self.cache.pool.num_available == self.cache.pool.num_blocks
        assert not self.cache.store.states, "recurrent states leak"


@given(seed=st.integers(0, 2**32), is_recurrent=st.booleans())
@settings(max_examples=60, deadline=None)
def test_random_histories_equal_a_fresh_prefill(seed: int, is_recurrent: bool) -> None:
    Driver(seed, is_recurrent=is_recurrent).run(40)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), is_recurrent=st.booleans())
@settings(max_examples=1500, deadline=None)
def test_many_random_histories_equal_a_fresh_prefill(seed: int, is_recurrent: bool) -> None:
    Driver(seed, is_recurrent=is_recurrent).run(120)


class RollbackTwice(PagedCache):
    """Planted: the pending rollback is applied again at the next pass."""

    def open_window(self, sequence: Sequence, num_rows: int) -> Window:
        last = getattr(self, "last", {})
        if sequence.id in last:
            self._cut(sequence, min(sequence.num_computed, last.pop(sequence.id)))
        return super().open_window(sequence, num_rows)

    def close_window(self, window: Window, kept_rows: list[int], num_committed: int) -> None:
        super().close_window(window, kept_rows, num_committed)
        if not hasattr(self, "last"):
            self.last: dict[int, int] = {}
        self.last[window.sequence.id] = window.start


class RollbackOfNeighbour(PagedCache):
    """Planted: rolling one sequence back gives back the last block of another one too."""

    def close_window(self, window: Window, kept_rows: list[int], num_committed: int) -> None:
        super().close_window(window, kept_rows, num_committed)
        self.seen = getattr(self, "seen", set()) | {window.sequence}
        for other in self.seen - {window.sequence}:
            if other.blocks and not other.is_freed and other.window is None:
                self.pool.release(other.blocks[-1])
                self.pool.unpublish(other.blocks[-1])
                other.blocks[-1] = self.pool.allocate()
                break


class NeverRollsBack(PagedCache):
    """Planted: rejected rows stay."""

    def close_window(self, window: Window, kept_rows: list[int], num_committed: int) -> None:
        super().close_window(window, range(len(window.slots)), num_committed)


class WritesThroughForks(PagedCache):
    """Planted: a shared block is written without being copied."""

    def _ensure_room(self, sequence: Sequence, num_rows: int) -> None:
        needed = self.num_blocks_for(sequence.num_computed + num_rows) - len(sequence.blocks)
        sequence.blocks.extend(self.pool.allocate() for _ in range(needed))


class ForgetsTreeMoves(PagedCache):
    """Planted: the accepted path of a tree keeps its tree slots."""

    def close_window(self, window: Window, kept_rows: list[int], num_committed: int) -> None:
        super().close_window(window, range(len(kept_rows)), num_committed)


class LeaksOnFree(PagedCache):
    """Planted: one block is never given back."""

    def free(self, sequence: Sequence) -> None:
        if sequence.blocks:
            self.pool.retain(sequence.blocks[0])
        super().free(sequence)


@pytest.mark.parametrize(
    "planted",
    [RollbackTwice, RollbackOfNeighbour, NeverRollsBack, WritesThroughForks, ForgetsTreeMoves, LeaksOnFree],
)
def test_planted_faults_are_caught(planted: type[PagedCache]) -> None:
    def any_history_fails() -> bool:
        for seed in range(60):
            try:
                Driver(seed, cache_class=planted).run(60)
            except (AssertionError, PoolExhaustedError, RuntimeError):
                return True
        return False

    assert any_history_fails()


def test_a_window_closes_once() -> None:
    cache = PagedCache(ToyTarget(), 4, 4)
    window = cache.open_window(cache.open(), 3)
    cache.close_window(window, [0], 1)
    with pytest.raises(AssertionError, match="exactly once"):
        cache.close_window(window, [0, 1], 1)


def test_closing_one_window_leaves_other_sequences_alone() -> None:
    cache = PagedCache(ToyTarget(), 8, 4)
    first, second = cache.open(), cache.open()
    windows = [cache.open_window(first, 6), cache.open_window(second, 6)]
    before = (list(second.blocks), cache.store.keys[0].clone())
    cache.close_window(windows[0], [0, 2, 5], 1)
    assert second.blocks == before[0]
    own = windows[1].slots
    assert torch.equal(cache.store.keys[0][own], before[1][own])
    assert second.window is windows[1]


def test_exhaustion_leaves_the_sequence_as_it_was() -> None:
    cache = PagedCache(ToyTarget(), 2, 4)
    sequence = cache.open()
    cache.close_window(cache.open_window(sequence, 5), [0, 1, 2, 3, 4], 5)
    with pytest.raises(PoolExhaustedError):
        cache.open_window(sequence, 8)
    assert (len(sequence.blocks), sequence.num_computed, sequence.window) == (2, 5, None)
    cache.open_window(sequence, 3)


def test_a_hit_never_takes_the_last_token() -> None:
    cache = PagedCache(ToyTarget(), 8, 4)
    first = cache.open()
    cache.close_window(cache.open_window(first, 8), list(range(8)), 8)
    cache.publish(first, [1] * 8)
    assert cache.open([1] * 8).num_computed == 4
    assert cache.open([1] * 9).num_computed == 8
    assert cache.open([1] * 9, namespace="other").num_computed == 0


def test_idle_blocks_give_way_oldest_first() -> None:
    pool = BlockPool(2)
    first, second = pool.allocate(), pool.allocate()
    pool.publish(first, b"first")
    pool.publish(second, b"second")
    pool.release(first)
    pool.release(second)
    assert pool.allocate() == first
    assert (pool.find(b"first"), pool.find(b"second")) == (None, second)
