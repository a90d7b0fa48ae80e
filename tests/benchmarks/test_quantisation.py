"""What the table of quantisations calls a difference."""

from __future__ import annotations

import pytest
from benchmarks.pairs import Ratio
from benchmarks.quantisation import difference, speed_cell


def test_a_difference_within_the_spread_of_either_side_is_none() -> None:
    steady, spread = (0.5, 0.5), (0.30, 0.34)
    assert difference((0.32, 0.35), spread).endswith("| none")
    assert difference(spread, (0.32, 0.35)).endswith("| none")
    assert difference(steady, (0.40, 0.52)).endswith("| none")
    assert difference(steady, spread) == "50.0% (spread 0.0%) | +18.0%"
    assert difference(spread, steady) == "32.0% (spread 4.0%) | -18.0%"


@pytest.mark.parametrize(("low", "high", "is_none"), [(1.2, 1.7, False), (0.9, 1.7, True), (0.7, 0.9, False)])
def test_a_ratio_of_speeds_around_1_is_none(low: float, high: float, is_none: bool) -> None:
    cell = speed_cell(Ratio(1.5, low, high, num_pairs=8, num_spoiled=1, seconds=(0.4, 0.2)))
    assert cell.startswith("160 (80) | 1.50 [")
    assert (", none |" in cell) is is_none
    assert cell.endswith("| 8 (1) |")
