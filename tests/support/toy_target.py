"""A target without weights: its logits are a hash of exactly the tokens that a row can see through its slots.

Reading one wrong slot, one token too many or too few changes every logit, so a fault anywhere in cache, layout,
rollback or verification shows at once.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from forerun.models.base import PassInput, PassOutput, Target, TargetTraits
from forerun.models.kv_store import KVStore, RecurrentState
from forerun.types import Tap


class ToyTarget(Target):
    """Logits [rows, vocabulary] depend on the last ``order`` visible tokens (0: all of them).

    A small ``order`` makes text that repeats itself, so that retrieval finds something. ``is_recurrent`` keeps the
    tokens in a per-owner state instead of the pool, and refuses what recurrent targets refuse.
    """

    def __init__(
        self, vocab_size: int = 13, *, order: int = 3, max_context: int = 512, is_recurrent: bool = False, salt: int = 0
    ) -> None:
        self.traits = TargetTraits("toy", "toy", 1, 4, vocab_size, max_context, (vocab_size - 1,), is_recurrent, True)
        self._order = order
        self._salt = salt
        self.num_passes = 0
        self.last_batch: PassInput | None = None

    @property
    def weight_bytes(self) -> int:
        return 0

    def new_store(self, num_slots: int, dtype: torch.dtype | None = None) -> KVStore:
        stale = torch.full((num_slots, 1, 2), -1, dtype=torch.int64)
        return KVStore([stale], [stale.clone()])

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        self.num_passes += 1
        self.last_batch = batch
        seen = self._seen_recurrent(batch, store) if self.traits.has_recurrent_state else self._seen(batch, store)
        rows = [self._logits(seen[row]) for row in batch.logit_rows]
        logits = torch.stack(rows) if rows else torch.zeros(0, self.traits.vocab_size)
        states = torch.stack([self._state(seen[row]) for row in range(len(batch.tokens))])
        return PassOutput(logits.float(), {tap: states for tap in taps})

    def embed(self, tokens: Tensor) -> Tensor:
        return torch.stack([self._state((int(token),)) for token in tokens])

    def head(self, hidden: Tensor) -> Tensor:
        return torch.zeros(len(hidden), self.traits.vocab_size)

    def _seen(self, batch: PassInput, store: KVStore) -> list[tuple[int, ...]]:
        """Tokens visible to each row; a slot must hold the position at which it is read."""
        keys = store.keys[0][:, 0]
        keys[batch.slots, 0], keys[batch.slots, 1] = batch.tokens, batch.positions
        seen: list[tuple[int, ...]] = [()] * len(batch.tokens)
        for group in batch.groups:
            for row in group.rows:
                slots = group.slots[: int(batch.positions[row]) + 1]
                assert keys[slots, 1].tolist() == list(range(len(slots))), "a slot is read at another position"
                seen[row] = tuple(keys[slots, 0].tolist())
        return seen

    def _seen_recurrent(self, batch: PassInput, store: KVStore) -> list[tuple[int, ...]]:
        seen: list[tuple[int, ...]] = []
        num_of_owner: dict[int, int] = {}
        current: dict[int, tuple[int, ...]] = {}
        for token, position, owner in zip(batch.tokens.tolist(), batch.positions.tolist(), batch.owners, strict=True):
            if owner not in current:
                state = store.states.get(owner)
                current[owner] = () if position == 0 or state is None else tuple(state.tensors[0].tolist())
            assert position == len(current[owner]), "recurrent rows come in order and without branches"
            current[owner] = (*current[owner], token)
            num_of_owner[owner] = num_of_owner.get(owner, 0) + 1
            if num_of_owner[owner] == batch.num_committed[owner]:
                store.states[owner] = RecurrentState(len(current[owner]), (torch.tensor(current[owner]),))
            seen.append(current[owner])
        return seen

    def _logits(self, tokens: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(self._rng(tokens).normal(size=self.traits.vocab_size) * 3.0)

    def _state(self, tokens: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(self._rng(tokens).normal(size=self.traits.hidden_size))

    def _rng(self, tokens: tuple[int, ...]) -> np.random.Generator:
        key = repr((self._salt, tokens[-self._order :] if self._order else tokens)).encode()
        return np.random.default_rng(int.from_bytes(hashlib.sha256(key).digest()[:8], "little"))
