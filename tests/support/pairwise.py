"""A small sample of a large product in which every pair of values of two axes still meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]
_Pair = tuple[tuple[str, Hashable], tuple[str, Hashable]]


def pairwise(axes: Mapping[str, Sequence[Hashable]]) -> list[Row]:
    """Rows over ``axes`` that hold every pair of values; the same axes give the same rows in the same order.

    Of a single axis every value is there.
    Greedy: a row starts from the first pair that is missing and takes, axis by axis, the value that adds most pairs,
    of several the one whose pairs were used least so far.
    """
    if len(axes) == 1:
        return whole_product(axes)
    missing = dict.fromkeys(((a, x), (b, y)) for a, b in combinations(axes, 2) for x, y in product(axes[a], axes[b]))
    rows: list[Row] = []
    num_uses: Counter[_Pair] = Counter()
    while missing:
        row: Row = dict(next(iter(missing)))
        for axis in axes:
            if axis not in row:
                row[axis] = max(
                    axes[axis],
                    key=lambda value: _gain(_pairs_with(axis, row | {axis: value}, axes), missing, num_uses),
                )
        for pair in pairs_of(row, axes):
            missing.pop(pair, None)
        num_uses.update(pairs_of(row, axes))
        rows.append({axis: row[axis] for axis in axes})
    return rows


def whole_product(axes: Mapping[str, Sequence[Hashable]]) -> list[Row]:
    """Every row there is."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def pairs_of(row: Row, axes: Mapping[str, Sequence[Hashable]]) -> list[_Pair]:
    """The pairs that a row, whole or unfinished, holds."""
    return [((a, row[a]), (b, row[b])) for a, b in combinations([axis for axis in axes if axis in row], 2)]


def _pairs_with(axis: str, row: Row, axes: Mapping[str, Sequence[Hashable]]) -> list[_Pair]:
    return [pair for pair in pairs_of(row, axes) if axis in (pair[0][0], pair[1][0])]


def _gain(pairs: list[_Pair], missing: Mapping[_Pair, None], num_uses: Counter[_Pair]) -> tuple[int, int]:
    """New pairs first; then balance, without which most rows of the default would lack most of what matters."""
    return sum(pair in missing for pair in pairs), -sum(num_uses[pair] for pair in pairs)
