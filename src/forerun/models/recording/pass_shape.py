"""The sizes that a recorded pass has, whatever it is asked to compute."""

from __future__ import annotations

from dataclasses import dataclass

from forerun.models.base import PassInput

# Larger passes are rare, read prompts, and spend their time in products, not in launching them.
MAX_ROWS = 64
LEAST_KEYS = 128


@dataclass(frozen=True, slots=True)
class PassShape:
    """``num_groups`` attention groups of ``num_rows`` rows and ``num_keys`` keys each, powers of two."""

    num_groups: int
    num_rows: int
    num_keys: int

    @property
    def num_places(self) -> int:
        """Rows of the pass, spare ones included."""
        return self.num_groups * self.num_rows

    @classmethod
    def of(cls, batch: PassInput) -> PassShape | None:
        """The smallest shape that holds the batch; None for one that is too large, or empty."""
        if not batch.groups:
            return None
        shape = cls(
            _power_of_two(len(batch.groups)),
            _power_of_two(max(len(group.rows) for group in batch.groups)),
            max(LEAST_KEYS, _power_of_two(int(batch.positions.max()) + 1)),
        )
        return shape if shape.num_places <= MAX_ROWS else None


def _power_of_two(number: int) -> int:
    """The least that isn't smaller."""
    return 1 << (number - 1).bit_length()
