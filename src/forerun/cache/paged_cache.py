"""Block tables over one target's pool: prefix hits, windows for speculation, rollback, fork.

A pass writes into a window; closing the window keeps the rows that were committed and gives everything else back. That
is the only rollback there is: it belongs to one sequence and happens exactly once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence as Ordered

import torch

from forerun.cache.block_pool import BlockPool, PoolExhaustedError
from forerun.cache.sequence import Sequence, Window
from forerun.cache.slot_table import SlotTable
from forerun.models.base import Target


class PagedCache:
    """The sequences of one target over one store of ``num_blocks * block_size`` slots.

    ``kv_dtype`` is the store's number type, the target's own by default.
    """

    def __init__(
        self, target: Target, num_blocks: int, block_size: int = 16, *, kv_dtype: torch.dtype | None = None
    ) -> None:
        self.block_size = block_size
        self.pool = BlockPool(num_blocks)
        self.store = target.new_store(num_blocks * block_size, kv_dtype)
        self.num_hit_tokens = 0
        self._is_recurrent = target.traits.has_recurrent_state
        self._next_id = 0
        self._offsets = torch.arange(block_size)

    def open(self, tokens: Ordered[int] = (), *, namespace: str = "", reuse: bool = True) -> Sequence:
        """A new sequence; with ``reuse`` it starts on the longest published prefix of ``tokens`` (whole blocks).

        The last token is never part of a hit, since its logits are wanted. Recurrent targets start on a hit only where
        a state checkpoint was stored with it. ``namespace`` keeps contents apart that must not be shared.
        """
        sequence = Sequence(self._new_id(), SlotTable(self.block_size), namespace)
        if not reuse:
            return sequence
        keys: list[bytes] = []
        blocks: list[int] = []
        num_usable = 0
        for start in range(0, len(tokens) - self.block_size, self.block_size):
            key = self._key(keys[-1] if keys else namespace.encode(), tokens[start : start + self.block_size])
            block = self.pool.find(key)
            if block is None:
                break
            keys.append(key)
            blocks.append(block)
            if not self._is_recurrent or self.pool.checkpoint_of(block) is not None:
                num_usable = len(blocks)
        for block in blocks[:num_usable]:
            self.pool.retain(block)
        sequence.blocks, sequence.keys = blocks[:num_usable], keys[:num_usable]
        sequence.num_computed = num_usable * self.block_size
        self.num_hit_tokens += sequence.num_computed
        if num_usable and self._is_recurrent:
            checkpoint = self.pool.checkpoint_of(blocks[num_usable - 1])
            assert checkpoint is not None
            self.store.states[sequence.id] = checkpoint
        return sequence

    def open_window(self, sequence: Sequence, num_rows: int) -> Window:
        """Slots for ``num_rows`` rows behind the computed positions, none of which anyone else can see.

        Raises ``PoolExhaustedError``, with the sequence as it was, when the pool has too few blocks.
        """
        assert not sequence.is_freed, "a freed sequence can't speculate"
        assert sequence.window is None, "the sequence's last window was never closed"
        self._ensure_room(sequence, num_rows)
        start = sequence.num_computed
        end = start + num_rows
        window = Window(sequence, start, self.slots(sequence, end), sequence.table.of(sequence.blocks, end, start))
        sequence.window = window
        return window

    def close_window(self, window: Window, kept_rows: Ordered[int], num_committed: int) -> None:
        """Keep ``kept_rows`` (ascending, a path) as the next positions, give the rest back.

        The first ``num_committed`` rows were committed before the pass. A recurrent target keeps just those: its state
        ends at that border, and the engine plays the kept drafts again in the next pass.
        """
        sequence = window.sequence
        assert window.is_open and sequence.window is window, "a window is closed exactly once"
        window.is_open = False
        sequence.window = None
        if self._is_recurrent:
            kept_rows = list(kept_rows)[:num_committed]
        num_kept = len(kept_rows)
        if num_kept and kept_rows[-1] >= num_kept:
            moves = [(row, index) for index, row in enumerate(kept_rows) if row != index]
            source, destination = (torch.tensor(side) for side in zip(*moves, strict=True))
            self.store.move(window.slots[source], window.slots[destination])
        self._cut(sequence, window.start + num_kept)

    def truncate(self, sequence: Sequence, length: int) -> None:
        """Forget every position from ``length`` on. Recurrent state can't be cut: refused unless nothing is lost."""
        assert sequence.window is None, "close the window first"
        if length >= sequence.num_computed:
            return
        assert not self._is_recurrent or length == 0, "recurrent state can only be dropped whole"
        if length == 0:
            self.store.states.pop(sequence.id, None)
        self._cut(sequence, length)

    def has_news(self, sequence: Sequence) -> bool:
        """Whether ``publish`` would find something to do: a block became full, or a recurrent state ends with one."""
        num_full, num_beyond = divmod(sequence.num_computed, self.block_size)
        return num_full > len(sequence.keys) or (self._is_recurrent and num_full > 0 and num_beyond == 0)

    def publish(self, sequence: Sequence, tokens: Ordered[int]) -> None:
        """Make every full block of computed positions findable by later sequences with the same tokens before it."""
        num_full = sequence.num_computed // self.block_size
        for index in range(len(sequence.keys), num_full):
            parent = sequence.keys[-1] if sequence.keys else sequence.namespace.encode()
            key = self._key(parent, tokens[index * self.block_size : (index + 1) * self.block_size])
            sequence.keys.append(key)
            self.pool.publish(sequence.blocks[index], key)
        state = self.store.states.get(sequence.id)
        if state is not None and num_full and state.num_tokens == num_full * self.block_size:
            self.pool.publish(sequence.blocks[num_full - 1], sequence.keys[num_full - 1], state)

    def fork(self, sequence: Sequence) -> Sequence:
        """A second sequence with the same computed positions; blocks are shared until one side writes."""
        assert sequence.window is None, "close the window first"
        twin = Sequence(self._new_id(), SlotTable(self.block_size), sequence.namespace)
        twin.blocks, twin.num_computed = list(sequence.blocks), sequence.num_computed
        twin.keys = list(sequence.keys)
        for block in twin.blocks:
            self.pool.retain(block)
        if sequence.id in self.store.states:
            self.store.states[twin.id] = self.store.states[sequence.id]
        return twin

    def free(self, sequence: Sequence) -> None:
        """Give everything back. Later blocks go first, so that a prefix outlives what followed it."""
        assert not sequence.is_freed, "a sequence is freed once"
        sequence.is_freed = True
        if sequence.window is not None:
            sequence.window.is_open = False
            sequence.window = None
        for block in reversed(sequence.blocks):
            self.pool.release(block)
        sequence.blocks = []
        sequence.table.forget(0)
        sequence.num_computed = 0
        self.store.states.pop(sequence.id, None)

    def slots(self, sequence: Sequence, length: int) -> torch.Tensor:
        """Pool slots of positions 0..length-1, int64 [length], until one of their blocks changes."""
        return sequence.table.of(sequence.blocks, length)

    def num_blocks_for(self, num_tokens: int) -> int:
        """Blocks that ``num_tokens`` positions take."""
        return -(-num_tokens // self.block_size)

    def _ensure_room(self, sequence: Sequence, num_rows: int) -> None:
        """Blocks for the rows to come; a partly filled block that others see is copied first."""
        needed = self.num_blocks_for(sequence.num_computed + num_rows) - len(sequence.blocks)
        first_written = sequence.num_computed // self.block_size
        is_partial = sequence.num_computed % self.block_size > 0
        must_copy = is_partial and self.pool.is_shared(sequence.blocks[first_written])
        num_wanted = max(needed, 0) + must_copy
        if num_wanted and num_wanted > self.pool.num_available:
            raise PoolExhaustedError(f"{num_wanted} blocks wanted, {self.pool.num_available} available")
        if must_copy:
            shared, own = sequence.blocks[first_written], self.pool.allocate()
            self.store.move(shared * self.block_size + self._offsets, own * self.block_size + self._offsets)
            self.pool.release(shared)
            sequence.blocks[first_written] = own
            sequence.table.forget(first_written)
        elif is_partial:
            self.pool.unpublish(sequence.blocks[first_written])
        for _ in range(needed):
            sequence.blocks.append(self.pool.allocate())

    def _cut(self, sequence: Sequence, length: int) -> None:
        sequence.num_computed = length
        num_kept = self.num_blocks_for(length)
        for block in reversed(sequence.blocks[num_kept:]):
            self.pool.release(block)
        del sequence.blocks[num_kept:]
        sequence.table.forget(num_kept)
        del sequence.keys[length // self.block_size :]

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    @staticmethod
    def _key(parent: bytes, tokens: Ordered[int]) -> bytes:
        content = struct.pack(f"<{len(tokens)}q", *tokens)
        return hashlib.sha256(hashlib.sha256(parent).digest() + content).digest()
