"""Sorts the positions of a text by what led up to them: the one expensive step of indexing a corpus.

Prefix doubling (Manber & Myers, 1993) backwards and only up to a depth, so that six or seven sorts are enough for any
text, however repetitive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SEPARATOR = -1

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ContextOrder:
    """Positions by their context, the tokens that end there read backwards.

    ``positions``, [n]: sorted by ``max_depth`` tokens of their context at least. ``room``, [text]: tokens of the own
    sequence up to and with each position. ``shared``, [n + 1]: tokens that neighbours k - 1 and k have in common, at
    most ``max_depth``; 0 at both ends.
    """

    positions: Ints
    room: Ints
    shared: Ints


def order_contexts(text: Ints, max_depth: int) -> ContextOrder:
    """Order every token of ``text``, whose sequences stand between separators: one in front, behind and between."""
    indexes = np.arange(len(text), dtype=np.int32)
    room = indexes - np.maximum.accumulate(np.where(text == SEPARATOR, indexes, 0))
    num_tokens = int(np.count_nonzero(text != SEPARATOR))

    # levels[k][i] ranks the 2**k tokens that end at i, fewer where the sequence begins; 0 for a separator.
    levels = [_dense_ranks(text.astype(np.int64))]
    num_ranked = 1
    while num_ranked < max_depth and levels[-1].max() < num_tokens:
        latter = levels[-1]
        former = np.zeros_like(latter)
        former[num_ranked:] = latter[:-num_ranked]
        former[room <= num_ranked] = 0
        levels.append(_dense_ranks(latter.astype(np.int64) * (int(latter.max()) + 1) + former))
        num_ranked *= 2

    keys = np.sort(levels[-1].astype(np.int64) * len(text) + indexes)
    positions = (keys[len(text) - num_tokens :] % len(text)).astype(np.int32)
    return ContextOrder(positions, room, _shared_lengths(levels, positions, room, max_depth))


def _dense_ranks(keys: NDArray[np.int64]) -> Ints:
    """0 for the smallest key, one more for each greater one."""
    order = np.argsort(keys)
    ranked = keys[order]
    is_greater = np.empty(len(keys), dtype=np.int32)
    is_greater[0] = 0
    np.not_equal(ranked[1:], ranked[:-1], out=is_greater[1:])
    ranks = np.empty(len(keys), dtype=np.int32)
    ranks[order] = np.cumsum(is_greater, dtype=np.int32)
    return ranks


def _shared_lengths(levels: list[Ints], positions: Ints, room: Ints, max_depth: int) -> Ints:
    """Common tokens of neighbours, from the largest power of two down: equal ranks mean that many equal tokens."""
    former, latter = positions[:-1], positions[1:]
    most = np.minimum(room[former], room[latter])
    found = np.zeros_like(most)
    for level in reversed(range(len(levels))):
        # Equal ranks of shorter contexts overshoot ``most``; then the contexts are equal as a whole.
        is_open = found < most
        ranks = levels[level]
        is_equal = ranks[np.where(is_open, former - found, 0)] == ranks[np.where(is_open, latter - found, 0)]
        found[is_open & is_equal] += 1 << level
    shared = np.zeros(len(positions) + 1, dtype=np.int32)
    shared[1:-1] = np.minimum(np.minimum(found, most), max_depth)
    return shared
