"""The suffix tree against plain counts of every substring."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.drafters.suffix.suffix_node import SuffixNode
from forerun.drafters.suffix.suffix_tree import SuffixTree


def substring_counts(sequences: Sequence[Sequence[int]], max_depth: int) -> dict[tuple[int, ...], int]:
    counts: dict[tuple[int, ...], int] = {}
    for sequence in sequences:
        for start in range(len(sequence)):
            for end in range(start + 1, min(start + max_depth, len(sequence)) + 1):
                key = tuple(sequence[start:end])
                counts[key] = counts.get(key, 0) + 1
    return counts


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


def newest_starts(tree: SuffixTree, sequences: Sequence[Sequence[int]]) -> None:
    """Each node points to the newest occurrence of its path, which is what recency and eviction rely on."""
    text = [token for sequence in sequences for token in sequence]
    owner = [index for index, sequence in enumerate(sequences) for _ in sequence]

    def walk(node: SuffixNode, path: list[int]) -> None:
        for child in node.children.values():
            whole = path + tree.span(child, child.length)
            last = max(
                start
                for start in range(len(text) - len(whole) + 1)
                if text[start : start + len(whole)] == whole and owner[start] == owner[start + len(whole) - 1]
            )
            assert child.start - tree._base == last + len(path)
            walk(child, whole)

    walk(tree._root, [])


sequences_of_tokens = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=25), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 8), sequences_of_tokens)
def test_counts_are_those_of_all_substrings_after_every_token(max_depth: int, sequences: list[list[int]]) -> None:
    tree = SuffixTree(max_depth)
    for index, sequence in enumerate(sequences):
        for length, token in enumerate(sequence):
            tree.append(token)
            seen = [*sequences[:index], sequence[: length + 1]]
            assert counts_in(tree) == substring_counts(seen, max_depth)
            for match_length in range(1, tree.num_open + 1):
                node = tree.open_node(match_length)
                assert tree.locate(sequence[: length + 1][-match_length:]) == (node, node.length)
        newest_starts(tree, sequences[: index + 1])
        tree.finish_sequence()


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 8), sequences_of_tokens, st.randoms())
def test_the_oldest_sequence_leaves_nothing_behind(
    max_depth: int, sequences: list[list[int]], rng: random.Random
) -> None:
    tree = SuffixTree(max_depth)
    kept: list[list[int]] = []
    for sequence in sequences:
        for token in sequence:
            tree.append(token)
        tree.finish_sequence()
        kept.append(sequence)
        if rng.random() < 0.5:
            tree.evict_oldest()
            kept.pop(0)
        assert counts_in(tree) == substring_counts(kept, max_depth)
        assert tree.num_sequences == len(kept)
        newest_starts(tree, kept)
    while kept:
        tree.evict_oldest()
        kept.pop(0)
        assert counts_in(tree) == substring_counts(kept, max_depth)
    assert tree.num_nodes == 0
    assert tree.tokens == []


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 8), *[st.lists(st.integers(0, 2), max_size=25)] * 3)
def test_a_copy_grows_on_its_own(max_depth: int, shared: list[int], mine: list[int], theirs: list[int]) -> None:
    tree = SuffixTree(max_depth)
    for token in shared:
        tree.append(token)
    twin = tree.copy()
    for own, text in ((tree, mine), (twin, theirs)):
        for token in text:
            own.append(token)
        assert counts_in(own) == substring_counts([shared + text], max_depth)
    assert tree.tokens == shared + mine


def repetitive_texts() -> list[list[int]]:
    rng = random.Random(3)
    line = [rng.randrange(1000) for _ in range(40)]
    noise = [rng.randrange(50) for _ in range(800)]
    return [[7] * 800, line * 20, noise]


@pytest.mark.parametrize("tokens", repetitive_texts())
def test_memory_stays_at_two_nodes_a_token_in_repetitive_text(tokens: list[int]) -> None:
    tree = SuffixTree(32)
    for token in tokens:
        tree.append(token)
    assert tree.num_nodes <= 2 * len(tokens)
    assert counts_in(tree) == substring_counts([tokens], 32)
