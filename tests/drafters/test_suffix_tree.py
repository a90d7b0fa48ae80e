"""The suffix tree against plain counts of every substring."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.drafters.suffix.suffix_node import SuffixNode
from forerun.drafters.suffix.suffix_tree import SuffixTree
from support.substring_counts import Counts


def substring_counts(tokens: Sequence[int], max_depth: int) -> dict[tuple[int, ...], int]:
    return dict(Counts([tokens], max_depth).count)


def tree_of(tokens: Sequence[int], max_depth: int) -> SuffixTree:
    tree = SuffixTree(max_depth)
    for token in tokens:
        tree.append(token)
    return tree


def counts_in(tree: SuffixTree) -> dict[tuple[int, ...], int]:
    """Every path of the tree with its count, after checks of the structure's own rules."""
    counts: dict[tuple[int, ...], int] = {}
    num_nodes = 0

    def walk(node: SuffixNode, path: tuple[int, ...]) -> None:
        nonlocal num_nodes
        for token, child in node.children.items():
            num_nodes += 1
            assert child.parent is node
            assert child.length > 0
            span = tree.span(child, child.length)
            assert span[0] == token
            for length in range(1, child.length + 1):
                counts[path + tuple(span[:length])] = child.count
            walk(child, path + tuple(span))
        if node is not tree._root:
            assert node.best is (node.ranked_children()[0] if node.children else None)
            assert not (len(node.children) == 1 and node.best is not None and node.best.count == node.count)

    walk(tree._root, ())
    assert num_nodes == tree.num_nodes
    assert num_nodes <= 2 * len(tree.tokens)
    return counts


def newest_starts(tree: SuffixTree, tokens: Sequence[int]) -> None:
    """Each node points to the newest occurrence of its path, which is what recency relies on."""
    last = Counts([tokens], tree.max_depth).last

    def walk(node: SuffixNode, path: tuple[int, ...]) -> None:
        for child in node.children.values():
            whole = (*path, *tree.span(child, child.length))
            assert child.start == last[whole] + len(path)
            walk(child, whole)

    walk(tree._root, ())


texts = st.lists(st.integers(0, 2), min_size=1, max_size=40)


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 8), texts)
def test_counts_are_those_of_all_substrings_after_every_token(max_depth: int, tokens: list[int]) -> None:
    tree = SuffixTree(max_depth)
    for length, token in enumerate(tokens, 1):
        tree.append(token)
        assert counts_in(tree) == substring_counts(tokens[:length], max_depth)
    newest_starts(tree, tokens)


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 8), texts)
def test_matches_are_the_ends_that_something_followed(max_depth: int, tokens: list[int]) -> None:
    tree, counts = tree_of(tokens, max_depth), Counts([tokens], max_depth)
    found = tree.match()
    lengths = [length for match in reversed(found) for length in range(match.shortest, match.longest + 1)]
    followed = [n for n in range(1, min(max_depth, len(tokens) + 1)) if counts.ranked(tuple(tokens[-n:]))]
    assert lengths == followed
    assert len({tree.count(match.state) for match in found}) == len(found), "equal counts are one match"
    for match in found:
        for length in range(match.shortest, match.longest + 1):
            ranked = counts.ranked(tuple(tokens[-length:]))
            followers = [(token, count) for token, count, _ in tree.followers(match.state)]
            frequent = [(token, count) for token, count, _ in tree.followers(match.state, 2)]
            assert frequent == [one for one in followers if one[1] >= 2]
            assert followers == [(key[-1], counts.count[key]) for key in ranked]
            assert tree.count(match.state) == counts.count[tuple(tokens[-length:])]
            assert tree.highest_count(match.state) == followers[0][1]


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 8), *[st.lists(st.integers(0, 2), max_size=25)] * 3)
def test_a_copy_grows_on_its_own(max_depth: int, shared: list[int], mine: list[int], theirs: list[int]) -> None:
    tree = tree_of(shared, max_depth)
    twin = tree.copy()
    for own, text in ((tree, mine), (twin, theirs)):
        for token in text:
            own.append(token)
        assert counts_in(own) == substring_counts(shared + text, max_depth)
    assert tree.tokens == shared + mine


def repetitive_texts() -> list[list[int]]:
    rng = random.Random(3)
    line = [rng.randrange(1000) for _ in range(40)]
    noise = [rng.randrange(50) for _ in range(800)]
    return [[7] * 800, line * 20, noise]


@pytest.mark.parametrize("tokens", repetitive_texts())
def test_memory_stays_at_two_nodes_a_token_in_repetitive_text(tokens: list[int]) -> None:
    tree = tree_of(tokens, 32)
    assert tree.num_nodes <= 2 * len(tokens)
    assert counts_in(tree) == substring_counts(tokens, 32)
