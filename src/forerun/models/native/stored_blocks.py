"""A matrix as a GGUF file holds it: rows of quantised blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Formats that the kernels multiply with as they are (csrc/forerun_kernels.h), by the numbers that GGUF files give them.
FORMATS = {2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K"}

HALF = 16  # outputs of a half panel
BLOCK = 32  # inputs whose activations share a scale


@dataclass(frozen=True, slots=True)
class StoredBlocks:
    """``data`` is uint8 [out, bytes of a row]; ``format`` a key of ``FORMATS``."""

    format: int
    num_inputs: int
    data: np.ndarray[Any, np.dtype[np.uint8]]

    @property
    def num_outputs(self) -> int:
        """Rows of the matrix."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where the parts of one packed matrix go: part i has half panels ``first[i]``, ``first[i] + stride``, ...

    ``panel_formats`` has the format of every panel, or None where one panel would need two: then the parts can't
    be packed as they are.
    """

    first: tuple[int, ...]
    stride: int
    num_outputs: int
    panel_formats: tuple[int, ...] | None

    @classmethod
    def below_each_other(cls, parts: Sequence[StoredBlocks]) -> Arrangement:
        """All outputs of the first part, then those of the next."""
        starts = [sum(part.num_outputs for part in parts[:index]) for index in range(len(parts))]
        begins_whole = all(start % HALF == 0 for start in starts)
        first = tuple(start // HALF for start in starts)
        formats = _panel_formats(parts, first, 1) if begins_whole else None
        return cls(first, 1, sum(part.num_outputs for part in parts), formats)

    @classmethod
    def in_turns(cls, parts: Sequence[StoredBlocks]) -> Arrangement:
        """A half panel of each part in turn, every part padded to whole half panels: gate and up."""
        first = tuple(range(len(parts)))
        num_outputs = sum(-(-part.num_outputs // HALF) * HALF for part in parts)
        return cls(first, len(parts), num_outputs, _panel_formats(parts, first, len(parts)))


def _panel_formats(parts: Sequence[StoredBlocks], first: Sequence[int], stride: int) -> tuple[int, ...] | None:
    formats: dict[int, int] = {}
    for part, begin in zip(parts, first, strict=True):
        for half in range(-(-part.num_outputs // HALF)):
            panel = (begin + half * stride) // 2
            if formats.setdefault(panel, part.format) != part.format:
                return None
    return tuple(formats[panel] for panel in range(len(formats)))
