"""A row of logits that is searched in fp32 and decided in float64.

Whole rows of float64 cost more than everything that is then done with them, and nearly all of their entries decide
nothing. So each search takes a little more than it needs, by a bound on fp32's rounding, and what it found is looked
at exactly. Results are those of the whole row in float64, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from forerun.sampling.argmax import require_drawable
from forerun.sampling.host_logits import Logits, on_host
from forerun.sampling.noise import FloatRow, IdRow

RoughRow = npt.NDArray[np.float32]

# Relative room for a rounding to fp32 (2^-24) of two terms and what is computed with them.
ROUGHNESS = 2.0**-21
# Best entries of this many parts of a row bound its k-th largest from below.
NUM_PARTS = 2**11
# Half a piece of a row that is turned to float64 in one go.
MAX_SUMMED = 2**14


@dataclass(frozen=True, slots=True)
class LogitRow:
    """``exact`` [vocabulary] is float32 as the target gave it or float64 after processing, ``rough`` its fp32 rounding.

    Raises:
        ForerunError: the row has NaN, +inf or nothing above -inf.
    """

    exact: RoughRow | FloatRow
    rough: RoughRow = field(init=False)
    peak: float = field(init=False)

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):
            object.__setattr__(self, "rough", np.asarray(self.exact, dtype=np.float32))
        object.__setattr__(self, "peak", float(self.exact.max()))
        require_drawable(self.peak, "the row")

    @classmethod
    def of(cls, logits: Logits) -> LogitRow:
        """The raw row of a target, [vocabulary]; nothing is copied where it is fp32 in this machine's memory."""
        return cls(on_host(logits))

    @property
    def size(self) -> int:
        """The vocabulary."""
        return int(self.exact.size)

    def at(self, ids: IdRow) -> FloatRow:
        """The logits of ``ids`` in float64."""
        return self.exact[ids].astype(np.float64)

    def scores(self, ids: IdRow | slice, temperature: float) -> FloatRow:
        """Log-probabilities of ``ids`` up to a constant that makes the row's largest 0, float64."""
        with np.errstate(over="ignore"):  # a tiny temperature sends all but the best to -inf, which is its meaning
            scores = self.exact[ids].astype(np.float64)
            scores -= self.peak
            scores /= temperature
            return scores

    def argmax(self) -> int:
        """The lowest id among the largest."""
        return int(self.exact.argmax())

    def at_least(self, level: float) -> IdRow:
        """Ascending ids of all logits of at least ``level``, and perhaps some just below it."""
        return np.flatnonzero(self.rough >= np.float32(self._below(level)))

    def among_largest(self, k: int) -> IdRow:
        """Ascending ids of the ``k`` largest logits, of all that a rounding could tie with those, and of some others.

        The k-th largest of the parts' best is reached by k entries at least.
        """
        length = self.size // NUM_PARTS
        if k > NUM_PARTS // 2 or length < 4:
            return np.arange(self.size)
        best = self.rough[: length * NUM_PARTS].reshape(length, NUM_PARTS).max(axis=0)
        level = float(np.partition(best, NUM_PARTS - k)[NUM_PARTS - k])
        # Float64 beyond fp32 is all one value here.
        return self.at_least(level) if level < np.inf else np.arange(self.size)

    def log_mass(self) -> float:
        """Logarithm of the sum of exp(logit - peak), float64, added up in the order of numpy's own pairwise sum."""
        return float(np.log(self._mass(0, self.size)))

    def _mass(self, start: int, end: int) -> np.float64:
        # The halves of a pairwise sum are pairwise sums: no whole row of float64 is needed for the bits of one.
        half = (end - start) // 2
        half -= half % 8
        if half > MAX_SUMMED:
            return np.float64(self._mass(start, start + half) + self._mass(start + half, end))
        shifted = self.exact[start:end].astype(np.float64)
        shifted -= self.peak
        return np.float64(np.exp(shifted, out=shifted).sum())

    def _below(self, level: float) -> float:
        return level - ROUGHNESS * (abs(level) + abs(self.peak))
