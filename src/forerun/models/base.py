"""What a target is: one flat pass over rows of many owners, logits and tapped states out.

The engine never asks which family it drives. A pass takes rows (a token at a position, owned by a sequence, stored in a
pool slot) and attention groups (rows that share one table of slots in position order).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from forerun.models.kv_store import KVStore
from forerun.sampling.host_logits import HostLogits, on_host
from forerun.types import Tap


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Rows that see the same keys: ``slots[p]`` is the pool slot of position p, and a row at position p sees 0..p.

    A chain is one group. A tree is one group per leaf: the prefix's slots, then those of the leaf's ancestors, so that
    position p lies where it lies in a chain. Each row belongs to exactly one group. ``slots`` is int64 [length].
    """

    rows: tuple[int, ...]
    slots: Tensor


@dataclass(frozen=True, slots=True)
class PassInput:
    """One flat batch. ``tokens``, ``positions`` and ``slots`` are int64 [rows]; ``slots[r]`` is where row r is stored.

    Rows of one owner are contiguous and, within the committed part, in position order. ``owners[r]`` is the sequence
    id of row r; ``num_committed[owner]`` says how many of the owner's rows hold committed tokens (the rest are drafts):
    recurrent targets keep their state at that border. ``logit_rows`` are the rows whose logits are wanted, ascending.
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    owners: tuple[int, ...]
    groups: tuple[AttentionGroup, ...]
    logit_rows: tuple[int, ...]
    num_committed: dict[int, int]


@dataclass(frozen=True, slots=True)
class PassOutput:
    """fp32 logits [len(logit_rows), vocabulary] and, per tap asked for, the states of all rows [rows, hidden].

    ``host`` is the numpy array beneath ``logits``, from a target that made them in one.
    """

    logits: Tensor
    taps: dict[Tap, Tensor]
    host: npt.NDArray[np.float32] | None = None

    @property
    def host_logits(self) -> HostLogits:
        """The logits as numpy in this machine's memory, once the pass is done."""
        return on_host(self.logits) if self.host is None else self.host


@dataclass(frozen=True, slots=True)
class TargetTraits:
    """What the engine must know of a target.

    ``has_recurrent_state``: state can't be cropped, so only the border of a pass is kept and drafts are chains.
    ``is_bit_exact``: whether the same-bytes promise of docs/contract.md holds for this architecture. ``dtype`` is that
    of linears (``as-shipped``: a file's own blocks) and of a pool that isn't asked for in another, ``device`` where the
    passes run, as torch writes them; ``kernels`` names what computes them: torch, or the native kernels' instructions.
    """

    name: str
    family: str
    num_layers: int
    hidden_size: int
    vocab_size: int
    max_context: int
    eos_token_ids: tuple[int, ...]
    has_recurrent_state: bool
    is_bit_exact: bool
    dtype: str = "float32"
    device: str = "cpu"
    kernels: str = "torch"


class Target(ABC):
    """A language model that forerun can drive."""

    traits: TargetTraits

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Memory of all weights that are held, packed ones included and shared ones once."""

    @abstractmethod
    def new_store(self, num_slots: int, dtype: torch.dtype | None = None) -> KVStore:
        """Storage for ``num_slots`` positions over all sequences, in ``dtype`` or else in the target's own."""

    @abstractmethod
    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        """One pass: stores keys and values of every row in its slot, then attends. No row depends on another owner."""

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """Input embeddings as the first block sees them, [n, hidden]."""

    @abstractmethod
    def head(self, hidden: Tensor) -> Tensor:
        """fp32 logits [n, vocabulary] of states after the final norm, soft cap included."""

    def logits_of(self, tokens: Sequence[int]) -> Tensor:
        """fp32 logits [len(tokens), vocabulary] of one sequence from an empty cache: a convenience for tests."""
        ids = torch.tensor(tokens, dtype=torch.int64)
        rows = torch.arange(len(tokens))
        group = AttentionGroup(tuple(range(len(tokens))), rows)
        batch = PassInput(ids, rows, rows, (0,) * len(tokens), (group,), tuple(range(len(tokens))), {0: len(tokens)})
        return self.forward(batch, self.new_store(len(tokens))).logits
