"""The pool slots of one sequence's positions, kept from pass to pass instead of worked out anew."""

from __future__ import annotations

from collections.abc import Sequence as Ordered

import torch
from torch import Tensor


class SlotTable:
    """Slot of each position, int64, filled block by block; whoever changes a block says from which one on."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._slots = torch.empty(0, dtype=torch.int64)
        self._num_filled = 0

    def of(self, blocks: Ordered[int], length: int) -> Tensor:
        """Slots of positions 0..length-1, [length]: a view that holds until a block in it changes."""
        num_blocks = -(-length // self._block_size)
        if num_blocks * self._block_size > len(self._slots):
            self._grow(num_blocks)
        if num_blocks > self._num_filled:
            self._fill(blocks, num_blocks)
        return self._slots[:length]

    def forget(self, first_block: int) -> None:
        """The blocks from index ``first_block`` on are no longer what they were."""
        self._num_filled = min(self._num_filled, first_block)

    def _fill(self, blocks: Ordered[int], num_blocks: int) -> None:
        size = self._block_size
        if num_blocks == self._num_filled + 1:
            first = blocks[self._num_filled] * size
            torch.arange(first, first + size, out=self._slots[self._num_filled * size : num_blocks * size])
        else:
            fresh = torch.tensor(blocks[self._num_filled : num_blocks], dtype=torch.int64)
            table = self._slots[self._num_filled * size : num_blocks * size].view(-1, size)
            torch.add((fresh * size)[:, None], torch.arange(size), out=table)
        self._num_filled = num_blocks

    def _grow(self, num_blocks: int) -> None:
        # A new tensor, twice as long: views of the old one stay what they are.
        slots = torch.empty(2 * num_blocks * self._block_size, dtype=torch.int64)
        slots[: len(self._slots)] = self._slots
        self._slots = slots
