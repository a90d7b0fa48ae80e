"""The pool slots of one sequence's positions, kept from pass to pass instead of worked out anew."""

from __future__ import annotations

from collections.abc import Sequence as Ordered

import numpy as np
import torch
from torch import Tensor


class SlotTable:
    """Slot of each position, int64, filled block by block; whoever changes a block says from which one on."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        # numpy's views and torch.from_numpy cost less than torch's own views.
        self._slots = np.empty(0, dtype=np.int64)
        self._num_filled = 0

    def of(self, blocks: Ordered[int], length: int, first: int = 0) -> Tensor:
        """Slots of positions first..length-1, [length - first]: a view that holds until a block in it changes."""
        num_blocks = -(-length // self._block_size)
        if num_blocks * self._block_size > len(self._slots):
            self._grow(num_blocks)
        if num_blocks > self._num_filled:
            self._fill(blocks, num_blocks)
        return torch.from_numpy(self._slots[first:length])

    def forget(self, first_block: int) -> None:
        """The blocks from index ``first_block`` on are no longer what they were."""
        self._num_filled = min(self._num_filled, first_block)

    def _fill(self, blocks: Ordered[int], num_blocks: int) -> None:
        size = self._block_size
        fresh = np.array(blocks[self._num_filled : num_blocks], dtype=np.int64)
        table = self._slots[self._num_filled * size : num_blocks * size].reshape(-1, size)
        np.add(fresh[:, None] * size, np.arange(size), out=table)
        self._num_filled = num_blocks

    def _grow(self, num_blocks: int) -> None:
        # A new array, twice as long: views of the old one stay what they are.
        slots = np.empty(2 * num_blocks * self._block_size, dtype=np.int64)
        slots[: len(self._slots)] = self._slots
        self._slots = slots
