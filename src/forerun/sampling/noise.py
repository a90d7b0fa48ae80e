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
# So few are drawn at once; of more, most can be ruled out first.
MAX_IDS_DRAWN = 2**11
# Relative room for rounding to fp32 where a bound decides what is not worth computing.
SLACK = 1e-4


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
        if count == ids.size == 1:
            return ids
        if count > 1:
            possible = np.flatnonzero(scores > -math.inf)
            scores, ids = scores[possible], ids[possible]
        if ids.size > MAX_IDS_DRAWN:
            scores, ids = self._able(scores, position, ids, count)
        totals = scores + self.at(position, ids)
        if count == 1:
            return ids[[totals.argmax()]]
        return np.asarray(ids[np.argsort(-totals, kind="stable")[:count]])

    def _able(self, scores: FloatRow, position: int, ids: IdRow, count: int) -> tuple[FloatRow, IdRow]:
        """Scores and ids that can still be among the ``count`` winners: a few dozen, whatever the vocabulary.

        noise = -log(-log(1 - u)) and -log(1 - u) >= u, so score + noise can reach a bound only where
        u <= exp(score - bound), which is cheap to ask of the words' upper halves in fp32.
        """
        bound = self._lower_bound(scores, position, ids, count)
        is_able = scores >= bound - LARGEST_NOISE - SLACK
        if np.count_nonzero(is_able) * WORDS_PER_JUMP < scores.size:
            scores, ids = scores[is_able], ids[is_able]
        left: list[IdRow] = []
        for start in range(0, ids.size, IDS_PER_CHUNK):
            part = slice(start, start + IDS_PER_CHUNK)
            with np.errstate(over="ignore"):  # what is beyond fp32 has no chance
                chance = np.exp((scores[part] - bound).astype(np.float32))
            chance *= np.float32(2.0**32 * (1.0 + SLACK))
            upper = (self._words(position, ids[part]) >> np.uint64(32)).astype(np.float32)
            left.append(start + np.flatnonzero(upper <= chance))
        able = np.concatenate(left)
        return scores[able], ids[able]

    def _lower_bound(self, scores: FloatRow, position: int, ids: IdRow, count: int) -> float:
        """A value that at least ``count`` totals reach: the least total of the best-scored ids."""
        if count == 1:
            best = np.array([scores.argmax()])
        else:
            count = min(count, scores.size)
            best = np.sort(np.argpartition(-scores, count - 1)[:count])
        return float((scores[best] + self.at(position, ids[best])).min())

    def _words(self, position: int, ids: IdRow) -> WordRow:
        """Words of ascending ids: one draw for all that lie close together, a jump over what lies between."""
        if not ids.size:
            return np.empty(0, dtype=np.uint64)
        jumps = (np.flatnonzero(np.diff(ids) > WORDS_PER_JUMP) + 1).tolist()
        block = int(ids[0]) // WORDS_PER_BLOCK
        generator = self._generator(position, block)
        parts = []
        for start, end in zip([0, *jumps], [*jumps, ids.size], strict=True):
            first, last = int(ids[start]), int(ids[end - 1])
            # Counted in blocks; whole blocks are drawn, so that the next draw starts a fresh one.
            num_skipped = first // WORDS_PER_BLOCK - block
            if num_skipped:
                generator.advance(num_skipped)
            block = last // WORDS_PER_BLOCK + 1
            origin = first - first % WORDS_PER_BLOCK
            drawn = generator.random_raw(block * WORDS_PER_BLOCK - origin)
            is_dense = last - first + 1 == end - start
            parts.append(drawn[first - origin : last + 1 - origin] if is_dense else drawn[ids[start:end] - origin])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _generator(self, position: int, block: int) -> np.random.Philox:
        # numpy raises the counter by one before it fills its first block.
        counter = ((position << 64) + block - 1) % 2**COUNTER_BITS
        return np.random.Philox(key=self.seed + (self.choice << 64), counter=counter)


def _gumbel(words: WordRow) -> FloatRow:
    """-log(-log(1 - u)) with u = (word + 1/2) / 2^64: small words are large noise, where float64 resolves u best."""
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-64
    # The largest words round to 1; the float below it keeps the noise finite (-3.6).
    return np.asarray(-np.log(-np.log1p(-np.minimum(uniform, 1.0 - 2.0**-53))))
