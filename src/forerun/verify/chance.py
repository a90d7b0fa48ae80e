"""The classical rules' source of randomness, apart from the rules, so that a test can walk every branch of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor


class Chance(ABC):
    """Decides what is left to chance; every call is independent of all others and of whatever drafted."""

    @abstractmethod
    def happens(self, probability: float) -> bool:
        """True with this probability."""

    @abstractmethod
    def draw(self, row: Tensor) -> int:
        """An index with the probabilities of ``row``, float64 [n]."""


class UniformChance(Chance):
    """Chance from uniforms in [0, 1), one a decision; a draw inverts the cumulative row."""

    def __init__(self, uniform: Callable[[], float]) -> None:
        self._uniform = uniform

    def happens(self, probability: float) -> bool:
        """True where the uniform lies below: never at 0, always at 1."""
        return self._uniform() < probability

    def draw(self, row: Tensor) -> int:
        """The first index whose cumulative mass exceeds the uniform's share: never one without mass."""
        cumulative = row.cumsum(0)
        index = int(torch.searchsorted(cumulative, self._uniform() * cumulative[-1], right=True))
        # A uniform beside 1 may round up to the whole mass.
        return min(index, int(row.nonzero()[-1]))
