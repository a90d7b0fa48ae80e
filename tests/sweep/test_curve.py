"""Curves by name, on curves a person would name the same way."""

import pytest

from forerun.sweep.cells import Candidate, Cell, CellState, Setting
from forerun.sweep.curve import curve, curves, shape, smallest_on_plateau
from forerun.sweep.results import CellResult, CurvePoint, CurveShape, Interval

SETTING = Setting("smollm2", "code", 0.0, 1)


def points(*medians, width=0.04):
    return [
        CurvePoint(n, median, median - width, median + width) for n, median in zip((1, 3, 7, 15), medians, strict=False)
    ]


@pytest.mark.parametrize(
    ("medians", "named", "pick"),
    [
        ((1.2, 1.4, 1.6, 1.9), CurveShape.RISING, 15),
        ((1.2, 1.5, 1.52, 1.51), CurveShape.PLATEAU, 3),
        ((1.2, 1.5, 1.4, 1.1), CurveShape.FALLING, 3),
        ((1.5, 1.4, 1.2, 0.8), CurveShape.FALLING, 1),
        ((0.9, 0.8, 0.7, 0.6), CurveShape.BELOW_ONE, None),
        ((1.0, 0.98, 0.9, 0.7), CurveShape.TIE, None),
        ((1.01, 1.02, 1.03, 1.02), CurveShape.TIE, None),
        ((1.3,), CurveShape.PLATEAU, 1),
        # 1.03 can't be told from off, so it is no pick although the next is barely better.
        ((1.03, 1.06, 1.06, 1.07), CurveShape.PLATEAU, 3),
    ],
)
def test_shapes_and_picks(medians, named, pick):
    assert shape(points(*medians)) is named
    assert smallest_on_plateau(points(*medians)) == pick


def test_a_difference_inside_the_interval_is_none():
    assert smallest_on_plateau(points(1.3, 1.33, width=0.04)) == 1
    assert smallest_on_plateau(points(1.3, 1.35, width=0.04)) == 3


def test_a_noisy_best_does_not_excuse_what_a_quieter_point_beats_beyond_doubt():
    noisy = [CurvePoint(2, 1.77, 1.64, 1.82), CurvePoint(3, 1.99, 1.9, 2.03), CurvePoint(7, 2.08, 1.65, 2.12)]
    assert smallest_on_plateau(noisy) == 3
    assert shape(noisy) is CurveShape.PLATEAU


def test_points_are_ordered_and_distinct():
    found = curve(SETTING, Candidate("ngram", 1), reversed(points(1.2, 1.4)))
    assert [point.num_speculative_tokens for point in found.points] == [1, 3]
    with pytest.raises(ValueError, match="distinct"):
        curve(SETTING, Candidate("ngram", 1), [*points(1.2), *points(1.3)])


def cell(method, n, **more):
    return Cell.of(SETTING, Candidate(method, n, **more))


def test_curves_group_cells_that_differ_in_n_alone():
    measured = CellResult(cell("ngram", 3), CellState.MEASURED, interval=Interval(1.5, 1.4, 1.6, 8, 0.97))
    predicted = CellResult(cell("ngram", 7), CellState.NOT_RUN, "not among the best", predicted_ratio=1.2)
    refused = CellResult(cell("ngram", 15), CellState.REFUSED, "over the limit")
    tree = CellResult(cell("ngram", 3, is_tree=True), CellState.NOT_RUN, "no time", predicted_ratio=0.5)
    off = CellResult(cell("off", 0), CellState.NOT_RUN, "the other side of every pair")
    chain, branched = curves([measured, predicted, refused, tree, off])
    assert [(point.num_speculative_tokens, point.is_predicted) for point in chain.points] == [(3, False), (7, True)]
    assert (chain.shape, chain.pick) == (CurveShape.FALLING, 3)
    assert branched.shape is CurveShape.BELOW_ONE
