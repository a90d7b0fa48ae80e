"""A target that writes down what it said, by what it had seen."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from forerun.models.base import PassInput, PassOutput, Target
from forerun.models.kv_store import KVStore
from forerun.types import Tap


class TokenStore(KVStore):
    """A target's store that also knows which token lies in each slot, int64 [slots]."""

    def __init__(self, inner: KVStore, num_slots: int) -> None:
        super().__init__(inner.keys, inner.values, inner.key_scales, inner.value_scales, inner.states)
        self.inner = inner
        self.tokens = torch.full((num_slots,), -1)

    def move(self, source: Tensor, destination: Tensor) -> None:
        self.inner.move(source, destination)
        self.tokens[destination] = self.tokens[source].clone()


class RecordingTarget(Target):
    """Another target, with the logits of every row kept under the tokens that the row could see.

    What a row sees is read from the pass itself, through slots and groups, so a wrong layout shows as a text that
    nobody wrote. Seeing the same tokens twice must give the same bits both times.
    """

    def __init__(self, inner: Target) -> None:
        self.inner = inner
        self.traits = inner.traits
        self._said: dict[bytes, Tensor] = {}

    @property
    def weight_bytes(self) -> int:
        return self.inner.weight_bytes

    def new_store(self, num_slots: int, dtype: torch.dtype | None = None) -> TokenStore:
        return TokenStore(self.inner.new_store(num_slots, dtype), num_slots)

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        assert isinstance(store, TokenStore), "the store comes from new_store"
        output = self.inner.forward(batch, store.inner, taps)
        store.tokens[batch.slots] = batch.tokens
        logit_of_row = {row: index for index, row in enumerate(batch.logit_rows)}
        positions = batch.positions.tolist()
        for group in batch.groups:
            for row in group.rows:
                if row in logit_of_row:
                    self._keep(store.tokens[group.slots[: positions[row] + 1]], output.logits[logit_of_row[row]])
        return output

    def embed(self, tokens: Tensor) -> Tensor:
        return self.inner.embed(tokens)

    def head(self, hidden: Tensor) -> Tensor:
        return self.inner.head(hidden)

    def said_after(self, tokens: Sequence[int]) -> Tensor:
        """Logits [vocabulary] of the row that saw exactly ``tokens``. Raises ``KeyError`` where no row did."""
        return self._said[_key(torch.tensor(tokens))]

    @property
    def num_said(self) -> int:
        """Different texts that some row saw."""
        return len(self._said)

    def _keep(self, seen: Tensor, logits: Tensor) -> None:
        key = _key(seen)
        known = self._said.setdefault(key, logits.clone())
        assert torch.equal(known, logits), f"{self.traits.name} said two things after {seen.tolist()}"


def _key(tokens: Tensor) -> bytes:
    return tokens.to(torch.int64).numpy().tobytes()
