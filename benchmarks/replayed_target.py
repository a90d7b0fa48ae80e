"""A target that costs nothing: it says what another target said, position by position."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from forerun.models.base import PassInput, PassOutput, Target
from forerun.models.kv_store import KVStore
from forerun.types import Tap


class ReplayedTarget(Target):
    """Records one request's logits by position, or gives them back as a view without computing anything.

    The last row computed at a position is the one that saw committed tokens, and verification never asks for a row
    behind a wrong draft; so with the recorded prompt, parameters and seed the recorded text comes again, whatever is
    drafted. Replaying, a pass reads ``num_bytes_read`` of memory, as weights are read, since what comes after it finds
    its code and data gone from the caches. Chains of one request only. Raises ``ValueError`` where a pass asks for rows
    that don't follow each other.
    """

    def __init__(self, inner: Target, num_positions: int, num_bytes_read: int = 0) -> None:
        self.inner = inner
        self.traits = inner.traits
        self.is_recording = True
        self._logits = np.zeros((num_positions, inner.traits.vocab_size), np.float32)
        self._weights = np.ones(num_bytes_read // 8)

    @property
    def weight_bytes(self) -> int:
        """See ``Target``."""
        return self.inner.weight_bytes

    def new_store(self, num_slots: int, *dtype: Any) -> KVStore:
        """See ``Target``; nothing is stored while replaying, but the pool moves what it holds."""
        return self.inner.new_store(num_slots, *dtype)

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        """See ``Target``."""
        ends = [int(batch.positions[row]) for row in (*batch.logit_rows[:1], *batch.logit_rows[-1:])]
        first, end = (ends[0], ends[1] + 1) if ends else (0, 0)
        if end - first != len(batch.logit_rows):
            raise ValueError(f"rows of one chain expected, found positions {batch.positions.tolist()}")
        if self.is_recording:
            output = self.inner.forward(batch, store, taps)
            self._logits[first:end] = output.host_logits
            return output
        self._weights.max(initial=0.0)
        return PassOutput(torch.from_numpy(self._logits[first:end]), {}, self._logits[first:end])

    def embed(self, tokens: Tensor) -> Tensor:
        """See ``Target``."""
        return self.inner.embed(tokens)

    def head(self, hidden: Tensor) -> Tensor:
        """See ``Target``."""
        return self.inner.head(hidden)
