"""What the rounds of a request came to, at the cost of one addition a round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from forerun.types import PositionCounts, RoundCounts


@dataclass(slots=True)
class RoundTally:
    """Rounds by how deep their draft was and how much of it was accepted; everything else follows from that."""

    drafted: int = 0
    emitted: int = 0
    _rounds: Counter[tuple[int, int]] = field(default_factory=Counter)

    def add(self, num_drafted: int, depth: int, num_accepted: int, num_emitted: int) -> None:
        """One round: rows and longest path of its draft, drafted tokens accepted, tokens given out."""
        self.drafted += num_drafted
        self.emitted += num_emitted
        self._rounds[depth, num_accepted] += 1

    def counts(self) -> RoundCounts:
        """The sum of ``RoundCounts.of_round`` over all rounds."""
        rounds = self._rounds.items()
        return RoundCounts(
            rounds=sum(count for _, count in rounds),
            rounds_without_draft=sum(count for (depth, _), count in rounds if depth == 0),
            drafted=self.drafted,
            accepted=sum(accepted * count for (_, accepted), count in rounds),
            emitted=self.emitted,
            positions=tuple(self._position(index) for index in range(max((d for d, _ in self._rounds), default=0))),
        )

    def _position(self, index: int) -> PositionCounts:
        deep = [(accepted, count) for (depth, accepted), count in self._rounds.items() if depth > index]
        return PositionCounts(
            sum(count for _, count in deep),
            sum(count for accepted, count in deep if accepted >= index),
            sum(count for accepted, count in deep if accepted > index),
        )
