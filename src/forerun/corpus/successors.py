"""What follows each context of a tree, and how often."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forerun.corpus.context_order import SEPARATOR, ContextOrder, Ints
from forerun.corpus.context_tree import ROOT, ContextTree


@dataclass(frozen=True, slots=True)
class Successors:
    """``token`` follows ``node`` ``count`` times, last behind position ``newest``: one entry for each pair, [pairs]."""

    node: Ints
    token: Ints
    count: Ints
    newest: Ints

    def __len__(self) -> int:
        return len(self.node)

    def of(self, chosen: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Successors:
        """Some of the entries."""
        return Successors(self.node[chosen], self.token[chosen], self.count[chosen], self.newest[chosen])


def count_successors(text: Ints, order: ContextOrder, tree: ContextTree) -> Successors:
    """All pairs of a node and a token behind it, by node, most frequent first and then newest; none for the root.

    Deepest nodes first, each handing its counts to its parent, so that the work is in proportion to the pairs.
    """
    following = text[order.positions + 1]
    ones = np.ones(len(following), dtype=np.int32)
    single = Successors(tree.leaf_parent, following, ones, order.positions).of(following != SEPARATOR)
    waiting: dict[int, list[Successors]] = defaultdict(list)
    _hand_over(single, tree, waiting)
    done: list[Successors] = []
    for depth in np.unique(tree.depth)[:0:-1]:
        if not waiting[int(depth)]:
            continue
        counted = _added_up(_joined(waiting.pop(int(depth))), vocab_size=int(text.max()) + 1)
        rank = -(counted.count.astype(np.int64) * len(text) + counted.newest)
        done.append(counted.of(np.lexsort((rank, counted.node))))
        above = Successors(tree.parent[counted.node], counted.token, counted.count, counted.newest)
        _hand_over(above, tree, waiting)
    return _joined(done or [single.of(slice(0))])


def _hand_over(entries: Successors, tree: ContextTree, waiting: dict[int, list[Successors]]) -> None:
    """Put entries where the sweep finds them at their node's depth."""
    entries = entries.of(entries.node != ROOT)
    depth = tree.depth[entries.node].astype(np.uint16)
    by_depth = np.argsort(depth, kind="stable")
    found, starts = np.unique(depth[by_depth], return_index=True)
    ends = np.append(starts, len(depth))[1:]
    for value, start, end in zip(found, starts, ends, strict=True):
        waiting[int(value)].append(entries.of(by_depth[start:end]))


def _added_up(entries: Successors, vocab_size: int) -> Successors:
    """One entry for each pair, by node."""
    keys = entries.node.astype(np.int64) * vocab_size + entries.token
    order = np.argsort(keys)
    ranked = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    counts = np.add.reduceat(entries.count[order], starts, dtype=np.int32)
    newest = np.maximum.reduceat(entries.newest[order], starts)
    firsts = order[starts]
    return Successors(entries.node[firsts], entries.token[firsts], counts, newest)


def _joined(parts: list[Successors]) -> Successors:
    return Successors(
        np.concatenate([part.node for part in parts]),
        np.concatenate([part.token for part in parts]),
        np.concatenate([part.count for part in parts]),
        np.concatenate([part.newest for part in parts]),
    )
