"""Default grids of N follow how a method drafts."""

from dataclasses import replace

import pytest

from forerun.drafters.base import MethodInfo
from forerun.drafters.registry import METHODS
from forerun.sweep.grid import default_grid
from forerun.types import Borrows, Dependency, Weights

INFO = MethodInfo("m", Dependency.SEQUENTIAL, Borrows.NOTHING, Weights.SEPARATE, "", False, 63, ())


@pytest.mark.parametrize(
    ("dependency", "limit", "trained", "grid"),
    [
        (Dependency.SEQUENTIAL, 63, None, (1, 2, 3, 4, 5, 6, 7)),
        (Dependency.SEQUENTIAL, 3, None, (1, 2, 3)),
        (Dependency.PARALLEL, 15, None, (3, 7, 11, 15)),
        (Dependency.PARALLEL, 15, 10, (3, 5, 7, 10, 11, 15)),
        (Dependency.PARALLEL, 7, 15, (3, 7)),
        (Dependency.PARALLEL_CORRECTED, 2, None, (2,)),
        (Dependency.NONE, 63, None, (1, 3, 7, 15)),
        (Dependency.NONE, 0, None, ()),
    ],
)
def test_grids(dependency, limit, trained, grid):
    info = replace(INFO, dependency=dependency, max_num_speculative_tokens=limit)
    assert default_grid(info, trained_size=trained) == grid


def test_a_methods_own_grid_wins_within_its_limit():
    assert default_grid(replace(INFO, default_grid=(2, 4, 99))) == (2, 4)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_registered_grids_are_those_of_their_dependency(method):
    assert default_grid(method.info) == default_grid(replace(method.info, default_grid=()))
