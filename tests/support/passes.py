"""Passes over one or several sequences, written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forerun.models.base import AttentionGroup, PassInput, Target
from forerun.models.kv_store import KVStore


@dataclass(frozen=True)
class Chunk:
    """Rows ``start`` to ``start + len(tokens)`` of a sequence whose position p lies in ``slots[p]``."""

    tokens: Sequence[int]
    start: int
    slots: Tensor


def batch_of(chunks: Sequence[Chunk]) -> PassInput:
    """Chains of several owners in one pass, all logits wanted."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[Tensor] = []
    owners: list[int] = []
    groups: list[AttentionGroup] = []
    for owner, chunk in enumerate(chunks):
        end = chunk.start + len(chunk.tokens)
        rows = tuple(range(len(tokens), len(tokens) + len(chunk.tokens)))
        groups.append(AttentionGroup(rows, chunk.slots[:end]))
        tokens += chunk.tokens
        positions += range(chunk.start, end)
        slots.append(chunk.slots[chunk.start : end])
        owners += [owner] * len(chunk.tokens)
    return PassInput(
        torch.tensor(tokens),
        torch.tensor(positions),
        torch.cat(slots),
        tuple(owners),
        tuple(groups),
        tuple(range(len(tokens))),
        {owner: len(chunk.tokens) for owner, chunk in enumerate(chunks)},
    )


def run_chunked(
    target: Target, tokens: Sequence[int], size: int, slots: Tensor | None = None, store: KVStore | None = None
) -> Tensor:
    """Logits of all tokens, prefilled ``size`` at a time."""
    where = torch.arange(len(tokens)) if slots is None else slots
    pool = store or target.new_store(int(where.max()) + 1)
    parts = []
    for start in range(0, len(tokens), size):
        batch = batch_of([Chunk(tokens[start : start + size], start, where)])
        parts.append(target.forward(batch, pool).logits)
    return torch.cat(parts)
