"""The tree of contexts that occur more than once, from their sorted order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forerun.corpus.context_order import ContextOrder, Ints

ROOT = 0


@dataclass(frozen=True, slots=True)
class ContextTree:
    """Nodes of the tree, [nodes], root first and then by depth, deepest first.

    A node stands for the contexts that occur exactly at ``positions[low:high]`` of the order; ``depth`` is the
    longest of them, and the shortest is one longer than the parent's. ``leaf_parent``, [n]: the node above each single
    position of the order.
    """

    low: Ints
    high: Ints
    depth: Ints
    parent: Ints
    leaf_parent: Ints


def build_context_tree(order: ContextOrder) -> ContextTree:
    """The intervals of the order whose neighbours share more tokens than with those outside (Abouelhoda et al., 2004).

    One sweep per depth that occurs, deepest first.
    """
    shared, num_tokens = order.shared, len(order.positions)
    # The node whose depth is what k - 1 and k share, and which holds both.
    owner = np.zeros(num_tokens + 1, dtype=np.int32)
    lows, highs, depths = [np.zeros(1, np.intp)], [np.full(1, num_tokens, np.intp)], [np.zeros(1, np.int32)]
    num_nodes = 1
    for depth in np.unique(shared)[:0:-1]:
        borders = np.flatnonzero(shared < depth)
        inside = np.flatnonzero(shared == depth)
        ends, which = np.unique(np.searchsorted(borders, inside), return_inverse=True)
        owner[inside] = num_nodes + which
        lows.append(borders[ends - 1])
        highs.append(borders[ends])
        depths.append(np.full(len(ends), depth, dtype=np.int32))
        num_nodes += len(ends)

    low, high = (np.concatenate(parts).astype(np.int32) for parts in (lows, highs))
    leaves = np.arange(num_tokens, dtype=np.int32)
    return ContextTree(
        low, high, np.concatenate(depths), _above(shared, owner, low, high), _above(shared, owner, leaves, leaves + 1)
    )


def _above(shared: Ints, owner: Ints, low: Ints, high: Ints) -> Ints:
    """The deepest nodes that are wider than the given intervals."""
    return np.where(shared[low] >= shared[high], owner[low], owner[high])


def ancestors_within(tree: ContextTree, nodes: Ints, depths: Ints, max_depth: int) -> Ints:
    """For each node the deepest one on its way to the root, itself included, that is at most so deep."""
    jumps = [tree.parent]
    while 1 << len(jumps) < max_depth:
        jumps.append(jumps[-1][jumps[-1]])
    found = nodes
    for jump in reversed(jumps):
        higher = jump[found]
        found = np.where(tree.depth[higher] > depths, higher, found)
    return np.where(tree.depth[found] > depths, tree.parent[found], found)
