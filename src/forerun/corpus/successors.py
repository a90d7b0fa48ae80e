"""What follows each context of a tree, how often, and where that leads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forerun.corpus.context_order import ContextOrder, Ints
from forerun.corpus.context_tree import ROOT, ContextTree, ancestors_within


@dataclass(frozen=True, slots=True)
class Successors:
    """``token`` follows ``node``, and both together are ``target``: one entry for each pair, [pairs].

    By node, most frequent first and then newest; none for the root. A target is a node, or the complement of the one
    position where the pair ends; it occurs exactly as often as the pair.
    """

    node: Ints
    token: Ints
    target: Ints


def find_successors(text: Ints, order: ContextOrder, tree: ContextTree, max_depth: int) -> Successors:
    """All pairs, found from their targets (Weiner's links, 1973): a target less its newest token lies on one way.

    Of the nodes on that way, those from the depth of the target's parent on lead to it, and no others. A context at
    ``max_depth`` leads to its newest ``max_depth`` tokens.
    """
    targets = _Targets.of(order, tree, max_depth)
    entry = np.flatnonzero(targets.depth > 1)
    rank_of = np.empty(len(order.room), dtype=np.int32)
    rank_of[order.positions] = np.arange(len(order.positions), dtype=np.int32)
    before = tree.leaf_parent[rank_of[targets.newest[entry] - 1]]
    depth = targets.depth[entry]
    node = ancestors_within(tree, before, np.where(depth == max_depth, max_depth, depth - 1), max_depth)
    # A node of nothing but contexts of ``max_depth`` tokens: each goes only a part of the way that its parent goes.
    is_cut = (tree.depth[node] == max_depth) & (tree.depth[tree.parent[node]] == max_depth - 1)
    node = np.where(is_cut, tree.parent[node], node)

    # Keys that sort by node and then as the targets are ordered: sorting values takes a fraction of sorting indexes.
    num_targets = len(targets.state)
    keys: list[NDArray[np.int64]] = []
    while len(node):
        is_open = (node != ROOT) & (tree.depth[node] >= targets.parent_depth[entry])
        node, entry = node[is_open], entry[is_open]
        keys.append(node.astype(np.int64) * num_targets + entry)
        node = tree.parent[node]
    ranked = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *keys]))
    entry = ranked % num_targets
    return Successors((ranked // num_targets).astype(np.int32), text[targets.newest[entry]], targets.state[entry])


@dataclass(frozen=True, slots=True)
class _Targets:
    """All nodes but the root and all single contexts, most frequent first and then newest: state, newest position,
    longest context, and how deep the node above is, [targets]."""

    state: Ints
    newest: Ints
    depth: Ints
    parent_depth: Ints

    @classmethod
    def of(cls, order: ContextOrder, tree: ContextTree, max_depth: int) -> _Targets:
        # A context that is no longer than its node's is that node.
        lengths = np.minimum(order.room[order.positions], max_depth)
        is_single = lengths > tree.depth[tree.leaf_parent]
        single = order.positions[is_single]
        # One position more, so that an interval may end where the order does.
        borders = np.stack([tree.low[1:], tree.high[1:]], axis=1).ravel()
        newest = np.append(np.maximum.reduceat(np.append(order.positions, np.int32(-1)), borders)[::2], single)
        count = np.append(tree.high[1:] - tree.low[1:], np.ones(len(single), dtype=np.int32))
        by_rank = np.argsort(-(count.astype(np.int64) * len(order.room) + newest))
        return cls(
            np.append(np.arange(1, len(tree.low), dtype=np.int32), ~single)[by_rank],
            newest[by_rank],
            np.append(tree.depth[1:], lengths[is_single])[by_rank],
            np.append(tree.depth[tree.parent[1:]], tree.depth[tree.leaf_parent[is_single]])[by_rank],
        )
