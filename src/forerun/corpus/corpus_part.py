"""An immutable index of finished sequences, in flat arrays that Python walks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from forerun.corpus.context_order import SEPARATOR, ContextOrder, Ints, order_contexts
from forerun.corpus.context_tree import ROOT, ContextTree, build_context_tree
from forerun.corpus.match import Match
from forerun.corpus.separated import sequence_lengths
from forerun.corpus.successors import find_successors

# A node of the tree, or the complement of the one position where a context occurs.
State = int


class CorpusPart:
    """Every context of up to ``max_depth`` tokens in some sequences: how often it occurs, where, and what follows.

    A suffix automaton cut at ``max_depth``, laid out as a tree of contexts read backwards: all matches of a text's end
    lie on one way from the root, and a draft follows stored links, each to the context that is one token longer.
    Contexts that occur once need no node: they are their position in the text. A token costs 30 to 60 bytes.
    """

    def __init__(self, text: Ints, max_depth: int) -> None:
        """``text`` as ``separated`` puts it together."""
        self.max_depth = max_depth
        self.lengths = sequence_lengths(text)
        self.num_sequences = len(self.lengths)
        self.num_tokens = len(text) - 1 - self.num_sequences
        order = order_contexts(text, max_depth)
        tree = build_context_tree(order)
        successors = find_successors(text, order, tree, max_depth)
        self._arrays: dict[str, Ints] = {
            "text": text,
            "depth": tree.depth,
            "count": tree.high - tree.low,
            **_extremes(text, order, tree),
            **_edges(text, order, tree, max_depth),
            "link_start": _starts(successors.node, len(tree.low)),
            "link_token": successors.token,
            "link_target": successors.target,
        }
        # Reading an element of a memoryview takes a third of the time that numpy needs.
        self._text, self._depth, self._count, self._oldest, self._newest = self._views(
            "text", "depth", "count", "oldest", "newest"
        )
        self._edge_start, self._edge_token, self._edge_target = self._views("edge_start", "edge_token", "edge_target")
        self._link_start, self._link_token, self._link_target = self._views("link_start", "link_token", "link_target")

    @property
    def text(self) -> Ints:
        """All sequences between separators, oldest first."""
        return self._arrays["text"]

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays.values())

    def sequences(self) -> list[Ints]:
        """The indexed sequences, oldest first; views of the part's own text."""
        ends = np.cumsum(self.lengths.astype(np.int64) + 1)
        return [self.text[end - length : end] for length, end in zip(self.lengths, ends, strict=True)]

    def match(self, tokens: Sequence[int], most: int) -> list[Match[State]]:
        """Where the text's end occurs, ``most`` of its tokens at most: longest match first, shorter ones behind."""
        found: list[Match[State]] = []
        text, node, num_matched = self._text, ROOT, 0
        most = min(most, len(tokens), self.max_depth)
        while num_matched < most:
            token, end = tokens[-1 - num_matched], self._edge_start[node + 1]
            edge = bisect_left(self._edge_token, token, self._edge_start[node], end)
            if edge == end or self._edge_token[edge] != token:
                break
            target = self._edge_target[edge]
            position = ~target if target < 0 else self._newest[target]
            full = most if target < 0 else self._depth[target]
            shortest = num_matched = num_matched + 1
            # A separator, which no text has, ends every comparison.
            while (
                num_matched < full and num_matched < most and text[position - num_matched] == tokens[-1 - num_matched]
            ):
                num_matched += 1
            found.append(Match(target, shortest, num_matched))
            if target < 0 or num_matched < full:
                break
            node = target
        return found[::-1]

    def count(self, state: State) -> int:
        """How often the contexts of a state occur."""
        return 1 if state < 0 else self._count[state]

    def highest_count(self, state: State) -> int:
        """How often the most frequent next token follows; 0 if nothing does."""
        if state < 0:
            return int(self._text[~state + 1] != SEPARATOR)
        link = self._link_start[state]
        if link == self._link_start[state + 1]:
            return 0
        target = self._link_target[link]
        return 1 if target < 0 else self._count[target]

    def followers(self, state: State, lowest_count: int = 0) -> Iterator[tuple[int, int, State]]:
        """(token, count, state) of what comes next so often at least, most frequent first and then newest."""
        if state < 0:
            token = self._text[~state + 1]
            if token != SEPARATOR and lowest_count <= 1:
                yield token, 1, state - 1
            return
        for link in range(self._link_start[state], self._link_start[state + 1]):
            target = self._link_target[link]
            count = 1 if target < 0 else self._count[target]
            if count < lowest_count:
                return
            yield self._link_token[link], count, target

    def most_frequent_path(self, state: State, num_tokens: int, lowest_count: int) -> tuple[list[int], list[int]]:
        """Up to ``num_tokens`` tokens, each the most frequent next, with their counts while at ``lowest_count``."""
        tokens: list[int] = []
        counts: list[int] = []
        while state >= 0 and len(tokens) < num_tokens:
            link = self._link_start[state]
            if link == self._link_start[state + 1]:
                return tokens, counts
            target = self._link_target[link]
            count = 1 if target < 0 else self._count[target]
            if count < lowest_count:
                return tokens, counts
            tokens.append(self._link_token[link])
            counts.append(count)
            state = target
        if state < 0 and lowest_count <= 1:
            copied = self.continuation(~state, num_tokens - len(tokens))
            tokens += copied
            counts += [1] * len(copied)
        return tokens, counts

    def occurrence(self, state: State, *, newest: bool) -> int:
        """The newest or oldest position of a state among those that something follows, if there is one."""
        if state < 0:
            return ~state
        return self._newest[state] if newest else self._oldest[state]

    def continuation(self, position: int, num_tokens: int) -> list[int]:
        """Up to ``num_tokens`` tokens behind a position, to the end of its sequence."""
        copied: list[int] = self._text[position + 1 : position + 1 + num_tokens].tolist()
        return copied[: copied.index(SEPARATOR)] if SEPARATOR in copied else copied

    def _views(self, *names: str) -> Iterator[memoryview[int]]:
        return (self._arrays[name].data for name in names)


def _extremes(text: Ints, order: ContextOrder, tree: ContextTree) -> dict[str, Ints]:
    """Per node its oldest and newest position with a follower; without any, some position."""
    is_followed = text[order.positions + 1] != SEPARATOR
    borders = np.stack([tree.low, tree.high], axis=1).ravel()
    some = order.positions[tree.low]
    # One element more, so that an interval may end where the order does.
    late = np.append(np.where(is_followed, order.positions, -1), -1).astype(np.int32)
    early = np.append(np.where(is_followed, order.positions, len(text)), len(text)).astype(np.int32)
    newest = np.maximum.reduceat(late, borders)[::2]
    oldest = np.minimum.reduceat(early, borders)[::2]
    return {"oldest": np.where(newest < 0, some, oldest), "newest": np.where(newest < 0, some, newest)}


def _edges(text: Ints, order: ContextOrder, tree: ContextTree, max_depth: int) -> dict[str, Ints]:
    """Per node its children by the token that tells them apart: nodes, and single positions as complements."""
    nodes = np.arange(1, len(tree.low), dtype=np.int32)
    node_parent = tree.parent[1:]
    node_token = text[order.positions[tree.low[1:]] - tree.depth[node_parent]]
    # A context that is no longer than its node's has no token beyond.
    is_longer = np.minimum(order.room[order.positions], max_depth) > tree.depth[tree.leaf_parent]
    leaves, leaf_parent = order.positions[is_longer], tree.leaf_parent[is_longer]
    leaf_token = text[leaves - tree.depth[leaf_parent]]
    parent = np.concatenate([node_parent, leaf_parent])
    token = np.concatenate([node_token, leaf_token])
    by_parent = np.argsort(parent.astype(np.int64) * (int(text.max()) + 1) + token)
    return {
        "edge_start": _starts(parent, len(tree.low)),
        "edge_token": token[by_parent],
        "edge_target": np.concatenate([nodes, ~leaves])[by_parent],
    }


def _starts(owner: Ints, num_owners: int) -> Ints:
    """Where each owner's entries begin in an array sorted by owner, and where the last one's end."""
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=num_owners))]).astype(np.int32)
