"""Gumbel noise that is a pure function of (seed, choice, position, token id).

The words come from Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), keyed by
(seed, choice), at the counter (token id // 4, position, 0, 0); token id % 4 picks the word. Nothing is ever advanced,
so any part of a row can be had alone, in any order.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatRow = npt.NDArray[np.float64]
IdRow = npt.NDArray[np.int64]
WordRow = npt.NDArray[np.uint64]

WORDS_PER_BLOCK = 4
COUNTER_BITS = 256
# Jumping to one block costs about as much as drawing this many words in a row.
WORDS_PER_JUMP = 512
# Noise of word 0, the largest there is: 45.05.
LARGEST_NOISE = -math.log(-math.log1p(-(2.0**-65)))
# Arrays of this many float64 stay in the cache and below what an allocator returns to the system.
IDS_PER_CHUNK = 2**14
# Relative room for rounding where a bound decides what is not worth computing.
SLACK = 1e-6


def random_seed() -> int:
    """A random unsigned 64-bit seed."""
    return secrets.randbits(64)


@dataclass(frozen=True, slots=True)
class KeyedNoise:
    """The noise of one choice of one request: standard Gumbel, 64-bit uniforms, float64."""

    seed: int
    choice: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.seed < 2**64 and 0 <= self.choice < 2**64):
            raise ValueError(f"seed and choice are unsigned 64-bit, found {self.seed} and {self.choice}")

    def row(self, position: int, vocab_size: int) -> FloatRow:
        """Noise of every token id at ``position``, [vocab_size]."""
        return _gumbel(self._words(position, np.arange(vocab_size)))

    def at(self, position: int, ids: IdRow) -> FloatRow:
        """Noise of ascending ``ids`` at ``position``: bit for bit that slice of ``row``."""
        return _gumbel(self._words(position, ids))

    def winners(self, scores: FloatRow, position: int, ids: IdRow, count: int = 1) -> IdRow:
        """The ``count`` ids with the largest score + noise, best first; ties go to the lowest id.

        ``scores`` belong to ascending ``ids`` and their largest is 0, so that rounding where it matters is some 1e-15.
        Noise is computed only where it can still win; the result is that of the full row.
        """
        if count > 1:
            possible = np.flatnonzero(scores > -math.inf)
            scores, ids = scores[possible], ids[possible]
        bound = self._lower_bound(scores, position, ids, count)
        able = np.flatnonzero(scores >= bound - LARGEST_NOISE - SLACK)
        if able.size * WORDS_PER_JUMP < scores.size:
            scores, ids = scores[able], ids[able]
        kept_ids: list[IdRow] = []
        kept_totals: list[FloatRow] = []
        for start in range(0, ids.size, IDS_PER_CHUNK):
            part = slice(start, start + IDS_PER_CHUNK)
            words = self._words(position, ids[part])
            # noise = -log(-log(1 - u)) and -log(1 - u) >= u, so score + noise can reach the bound only where
            # u <= exp(score - bound): one cheap test leaves a handful of ids for the logarithms.
            left = np.flatnonzero(_floor_of_uniform(words) <= np.exp(scores[part] - bound) * (1.0 + SLACK))
            kept_ids.append(ids[part][left])
            kept_totals.append(scores[part][left] + _gumbel(words[left]))
        order = np.argsort(-np.concatenate(kept_totals), kind="stable")
        return np.asarray(np.concatenate(kept_ids)[order[:count]])

    def _lower_bound(self, scores: FloatRow, position: int, ids: IdRow, count: int) -> float:
        """A value that at least ``count`` totals reach: the least total of the best-scored ids."""
        if count == 1:
            best = np.array([scores.argmax()])
        else:
            count = min(count, scores.size)
            best = np.sort(np.argpartition(-scores, count - 1)[:count])
        return float((scores[best] + self.at(position, ids[best])).min())

    def _words(self, position: int, ids: IdRow) -> WordRow:
        """Words of ascending ids: one contiguous draw and a gather, or block by block where they lie far apart."""
        first, span = int(ids[0]), int(ids[-1]) - int(ids[0]) + 1
        if ids.size * WORDS_PER_JUMP < span:
            return self._scattered_words(position, ids)
        block, offset = divmod(first, WORDS_PER_BLOCK)
        words = np.asarray(self._generator(position, block).random_raw(offset + span)[offset:])
        return words if ids.size == span else words[ids - first]

    def _scattered_words(self, position: int, ids: IdRow) -> WordRow:
        blocks, index = np.unique(ids // WORDS_PER_BLOCK, return_inverse=True)
        generator = self._generator(position, int(blocks[0]))
        words = np.empty((blocks.size, WORDS_PER_BLOCK), dtype=np.uint64)
        for row, num_skipped in enumerate(np.diff(blocks, prepend=blocks[0] - 1) - 1):
            # Counted in blocks; the next draw starts a fresh one.
            generator.advance(int(num_skipped))
            words[row] = generator.random_raw(WORDS_PER_BLOCK)
        return words[index, ids % WORDS_PER_BLOCK]

    def _generator(self, position: int, block: int) -> np.random.Philox:
        # numpy raises the counter by one before it fills its first block.
        counter = ((position << 64) + block - 1) % 2**COUNTER_BITS
        return np.random.Philox(key=self.seed + (self.choice << 64), counter=counter)


def _gumbel(words: WordRow) -> FloatRow:
    """-log(-log(1 - u)) with u = (word + 1/2) / 2^64: small words are large noise, where float64 resolves u best."""
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-64
    # The largest words round to 1; the float below it keeps the noise finite (-3.6).
    return np.asarray(-np.log(-np.log1p(-np.minimum(uniform, 1.0 - 2.0**-53))))


def _floor_of_uniform(words: WordRow) -> FloatRow:
    """At most 2^-52 below the uniform: the word's upper bits as the mantissa of a float in [1, 2), less 1."""
    bits = (words >> np.uint64(12)) | np.uint64(0x3FF0000000000000)
    return np.asarray(bits.view(np.float64) - 1.0)
