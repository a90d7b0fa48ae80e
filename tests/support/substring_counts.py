"""What any index of a text must agree with: plain counts of all substrings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Counts:
    """How often each substring occurs, where last, and what follows it."""

    sequences: Sequence[Sequence[int]]
    max_depth: int
    count: dict[tuple[int, ...], int] = field(default_factory=lambda: defaultdict(int))
    last: dict[tuple[int, ...], int] = field(default_factory=dict)
    followers: dict[tuple[int, ...], set[int]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        position = 0
        for sequence in self.sequences:
            for start in range(len(sequence)):
                for end in range(start + 1, min(start + self.max_depth, len(sequence)) + 1):
                    key = tuple(sequence[start:end])
                    self.count[key] += 1
                    self.last[key] = position + start
                    self.followers[key[:-1]].add(key[-1])
            position += len(sequence)

    def ranked(self, path: tuple[int, ...]) -> list[tuple[int, ...]]:
        longer = [(*path, token) for token in self.followers.get(path, ())]
        return sorted(longer, key=lambda key: (self.count[key], self.last[key]), reverse=True)
