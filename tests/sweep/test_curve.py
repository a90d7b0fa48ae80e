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


def paired(n, ratios):
    ordered = sorted(ratios)
    middle = (ordered[2] + ordered[3]) / 2
    return CurvePoint(n, middle, ordered[0], ordered[-1], pair_ratios=tuple(enumerate(ratios)))


def test_prompts_that_both_ran_tell_lengths_apart_where_intervals_overlap():
    """Prompts differ threefold, the lengths by 1.3 on each prompt: the intervals overlap, the comparison does not."""
    prompts = (1.1, 1.4, 1.7, 2.0, 2.6, 3.1)
    short, long = paired(1, prompts), paired(7, [1.3 * ratio for ratio in prompts])
    assert short.ratio > long.low
    assert smallest_on_plateau([short, long]) == 7
    assert shape([short, long]) is CurveShape.RISING
    assert shape([long, CurvePoint(15, short.ratio, short.low, short.high, pair_ratios=short.pair_ratios)]) is (
        CurveShape.FALLING
    )


def test_prompts_that_both_ran_show_that_a_higher_median_is_nothing():
    """The median is higher by a third, but as often lower as higher on one same prompt."""
    short = paired(1, (1.1, 1.2, 1.3, 2.0, 2.2, 2.4))
    long = paired(7, (2.0, 1.1, 2.3, 1.4, 2.6, 1.5))
    assert smallest_on_plateau([short, long]) == 1


def test_too_few_common_pairs_fall_back_on_the_intervals():
    few = CurvePoint(7, 1.6, 1.55, 1.65, pair_ratios=((0, 1.6), (1, 1.6)))
    assert smallest_on_plateau([CurvePoint(1, 1.2, 1.15, 1.25, pair_ratios=((0, 1.2), (1, 1.2))), few]) == 7


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
