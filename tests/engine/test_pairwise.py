"""The sample that other tests draw from a product holds every pair and is the same every time."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from support.pairwise import pairs_of, pairwise, whole_product

PRODUCTS = {
    "one axis": {"a": [1, 2, 3]},
    "two axes": {"a": [1, 2], "b": ["x", "y", "z"]},
    "many": {"a": list(range(6)), "b": list(range(7)), "c": list(range(4)), "d": [0, 1], "e": [0, 1], "f": [True]},
}


@pytest.mark.parametrize("axes", PRODUCTS.values(), ids=PRODUCTS.keys())
def test_every_pair_is_there(axes) -> None:
    found = {pair for row in pairwise(axes) for pair in pairs_of(row, axes)}
    assert found == {((a, x), (b, y)) for a, b in combinations(axes, 2) for x, y in product(axes[a], axes[b])}
    assert {(axis, row[axis]) for row in pairwise(axes) for axis in axes} == {(a, x) for a in axes for x in axes[a]}


def test_it_is_small_and_the_same_every_time() -> None:
    rows = pairwise(PRODUCTS["many"])
    assert rows == pairwise(PRODUCTS["many"])
    assert 42 <= len(rows) < 60, "two axes of 6 and 7 values need 42 rows"
    assert len(whole_product(PRODUCTS["many"])) == 6 * 7 * 4 * 2 * 2
