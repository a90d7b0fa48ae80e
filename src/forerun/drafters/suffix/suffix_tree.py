"""A counting suffix tree of bounded depth that grows token by token.

The structure of SuffixDecoding (arXiv 2411.04975): a path-compressed trie of every substring of at most ``max_depth``
tokens with the number of its occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator

from forerun.corpus.match import Match
from forerun.drafters.suffix.suffix_node import SuffixNode

# A place in the tree: a node and how many of its tokens were passed.
State = tuple[SuffixNode, int]


class SuffixTree:
    """Counts of all substrings of up to ``max_depth`` tokens of one growing sequence.

    Memory: at most two nodes per token, one text for all. Appending a token advances each of the up to ``max_depth``
    suffixes that are still open by O(1). Every open suffix ends at the end of a node, so all tokens of a node have one
    count. Nodes point to their newest occurrence, which ranks equal counts.
    """

    def __init__(self, max_depth: int) -> None:
        self.max_depth = max_depth
        self.num_nodes = 0
        self._root = SuffixNode(0, 0, 0, None)
        self._text: list[int] = []
        # _open[-k] is where the suffix of the newest k tokens ends; max_depth tokens can't be continued.
        self._open: list[SuffixNode] = []

    @property
    def tokens(self) -> list[int]:
        """The sequence."""
        return self._text

    def append(self, token: int) -> None:
        """One more token of the growing sequence."""
        position = len(self._text)
        self._text.append(token)
        self._open.append(self._root)
        for index, node in enumerate(self._open):
            child = node.children.get(token)
            if child is not None:
                self._open[index] = self._advance(node, child, token, position)
            elif node.count == 1:
                # Nobody else came this way: the leaf grows.
                node.length += 1
            else:
                self._open[index] = self._add_leaf(node, token, position)
        if len(self._open) == self.max_depth:
            del self._open[0]

    def match(self) -> list[Match[State]]:
        """Where the growing sequence's end occurred before with something behind it: longest match first."""
        found: list[Match[State]] = []
        last_count = 0
        for length, node in enumerate(reversed(self._open), 1):
            if not node.children:
                # Nothing ever followed these tokens, nor any longer end of the text.
                break
            if node.count == last_count:
                found[-1] = Match(found[-1].state, found[-1].shortest, length)
            else:
                found.append(Match((node, node.length), length, length))
                last_count = node.count
        return found[::-1]

    def count(self, state: State) -> int:
        """How often the tokens up to a place occur."""
        return state[0].count

    def highest_count(self, state: State) -> int:
        """How often the most frequent next token follows; 0 if nothing does."""
        node, offset = state
        likeliest = node if offset < node.length else node.best
        return 0 if likeliest is None else likeliest.count

    def followers(self, state: State, lowest_count: int = 0) -> Iterator[tuple[int, int, State]]:
        """(token, count, state) of what comes next so often at least, most frequent first and then newest."""
        node, offset = state
        if offset < node.length:
            if node.count >= lowest_count:
                yield self.token(node, offset), node.count, (node, offset + 1)
            return
        for child in node.ranked_children(lowest_count):
            yield self.token(child, 0), child.count, (child, 1)

    def most_frequent_path(self, state: State, num_tokens: int, lowest_count: int) -> tuple[list[int], list[int]]:
        """Up to ``num_tokens`` tokens, each the most frequent next, with their counts while at ``lowest_count``."""
        node, offset = state
        tokens: list[int] = []
        counts: list[int] = []
        while len(tokens) < num_tokens:
            if offset == node.length:
                if node.best is None or node.best.count < lowest_count:
                    break
                node, offset = node.best, 0
            start = node.start
            run = self._text[start + offset : start + min(node.length, offset + num_tokens - len(tokens))]
            tokens += run
            counts += [node.count] * len(run)
            offset += len(run)
        return tokens, counts

    def span(self, node: SuffixNode, length: int) -> list[int]:
        """The node's first ``length`` tokens."""
        return self._text[node.start : node.start + length]

    def token(self, node: SuffixNode, offset: int) -> int:
        """The node's token number ``offset``."""
        return self._text[node.start + offset]

    def copy(self) -> SuffixTree:
        """An independent tree of the same text."""
        twin = SuffixTree(self.max_depth)
        twin._text = self._text.copy()
        twin.num_nodes = self.num_nodes
        twins = {id(self._root): twin._root}
        pending = [self._root]
        while pending:
            node = pending.pop()
            copied = twins[id(node)]
            for token, child in node.children.items():
                copied.children[token] = twins[id(child)] = SuffixNode(child.count, child.start, child.length, copied)
            copied.best = None if node.best is None else twins[id(node.best)]
            pending.extend(node.children.values())
        twin._open = [twins[id(node)] for node in self._open]
        return twin

    def _advance(self, node: SuffixNode, child: SuffixNode, token: int, position: int) -> SuffixNode:
        """Continue the suffix that ends with ``node`` into ``child``; returns where it ends now."""
        is_alone = node.count == child.count + 1 and len(node.children) == 1
        if is_alone and child.length > 1:
            # Only this suffix ended between the two: move the border by one token instead.
            node.length = length = node.length + 1
            node.start = position + 1 - length
            child.start = start = child.start + 1
            child.length -= 1
            del node.children[token]
            node.children[self._text[start]] = child
            return node
        if child.length > 1:
            child = self._split(node, child, token)
        child.count += 1
        child.start = position
        self._prefer(node, child)
        if is_alone:
            self._merge_into(child, node)
        return child

    def _add_leaf(self, parent: SuffixNode, token: int, position: int) -> SuffixNode:
        leaf = SuffixNode(1, position, 1, parent)
        parent.children[token] = leaf
        self._prefer(parent, leaf)
        self.num_nodes += 1
        return leaf

    def _prefer(self, parent: SuffixNode, newest: SuffixNode) -> None:
        """The child that was just passed is the best unless another was seen more often. Nobody drafts at the root."""
        if parent is not self._root and (parent.best is None or newest.count >= parent.best.count):
            parent.best = newest

    def _split(self, parent: SuffixNode, child: SuffixNode, token: int) -> SuffixNode:
        """Give the child's first token a node of its own, between parent and child."""
        upper = SuffixNode(child.count, child.start, 1, parent)
        parent.children[token] = upper
        if parent.best is child:
            parent.best = upper
        child.start += 1
        child.length -= 1
        child.parent = upper
        upper.children[self.token(child, 0)] = child
        upper.best = child
        self.num_nodes += 1
        return upper

    def _merge_into(self, child: SuffixNode, node: SuffixNode) -> None:
        """Let an only child with the same count take its parent's tokens and place."""
        parent = node.parent
        assert parent is not None
        child.start -= node.length
        child.length += node.length
        child.parent = parent
        parent.children[self.token(child, 0)] = child
        if parent.best is node:
            parent.best = child
        self.num_nodes -= 1
