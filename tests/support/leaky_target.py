"""A target with a planted fault: its logits depend on more than the tokens that a row can see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from forerun.models.base import PassInput, PassOutput, Target
from forerun.models.kv_store import KVStore
from forerun.types import Tap

# What a pass leaks, one number for all its rows; 0 leaves the logits alone.
Leak = Callable[[PassInput], int]


class LeakyTarget(Target):
    """Another target whose logits are scaled by 1 + 2^-20 for every unit that ``leak`` finds in the pass.

    Such a step leaves nearly all ids alone and shows in nearly every logit.
    """

    def __init__(self, inner: Target, leak: Leak) -> None:
        self.inner = inner
        self.traits = inner.traits
        self._leak = leak

    @property
    def weight_bytes(self) -> int:
        return self.inner.weight_bytes

    def new_store(self, num_slots: int, dtype: torch.dtype | None = None) -> KVStore:
        return self.inner.new_store(num_slots, dtype)

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        output = self.inner.forward(batch, store, taps)
        return replace(output, logits=output.logits * (1 + self._leak(batch) * 2**-20))

    def embed(self, tokens: Tensor) -> Tensor:
        return self.inner.embed(tokens)

    def head(self, hidden: Tensor) -> Tensor:
        return self.inner.head(hidden)


def rows_beside(batch: PassInput) -> int:
    """Rows of the pass that no plain decoding of one request would have."""
    return max(0, len(batch.logit_rows) - 1)


def other_owners(batch: PassInput) -> int:
    """Requests beside the first one."""
    return len(set(batch.owners)) - 1


def prefill_cuts(batch: PassInput) -> int:
    """Whether a prompt is read in slices: rows that go on behind position 0 and are more than one."""
    first, last = int(batch.positions[0]), int(batch.positions[-1])
    return int(first > 0 and last - first >= 7)


def more_threads(batch: PassInput) -> int:
    """Threads beside the first one."""
    return torch.get_num_threads() - 1
