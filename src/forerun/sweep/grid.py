"""Which N to try when the plan names none, by how a method drafts."""

from __future__ import annotations

from typing import Final

from forerun.drafters.base import MethodInfo
from forerun.types import Dependency

SEQUENTIAL: Final = (1, 2, 3, 4, 5, 6, 7)
BLOCK: Final = (3, 7, 11, 15)
RETRIEVAL: Final = (1, 3, 7, 15)


def default_grid(info: MethodInfo, *, trained_size: int | None = None) -> tuple[int, ...]:
    """N to sweep, ascending, none over the method's limit; empty for a method that drafts nothing.

    A method's own grid wins where it declares one. Else serial drafts cost more with each token, so every small N; a
    block costs the same whatever its length, so a few sizes up to the limit, with the size that the drafter was
    trained for and its half; retrieval costs next to nothing.
    """
    limit = info.max_num_speculative_tokens
    if info.default_grid:
        grid = set(info.default_grid)
    elif info.dependency is Dependency.SEQUENTIAL:
        grid = set(SEQUENTIAL)
    elif info.dependency is Dependency.NONE:
        grid = set(RETRIEVAL)
    else:
        grid = set(BLOCK)
    if trained_size and info.dependency in (Dependency.PARALLEL, Dependency.PARALLEL_CORRECTED):
        grid |= {trained_size, trained_size // 2}
    within = tuple(sorted(n for n in grid if 1 <= n <= limit))
    return within or ((limit,) if limit else ())
