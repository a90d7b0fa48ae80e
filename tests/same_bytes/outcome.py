"""How one setting compared with its reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from same_bytes.arm import Arm
from same_bytes.prompts import Prompt
from same_bytes.spoken import Difference, Spoken, difference


@dataclass(frozen=True)
class Outcome:
    """Plain values, as they are stored. ``differences``: the first one of every prompt that has any."""

    num_tokens: int
    num_drafted: int
    num_accepted: int
    num_hit_tokens: int
    seconds: float
    differences: tuple[Difference, ...]

    @classmethod
    def of(cls, arm: Arm, prompts: Sequence[Prompt], reference: Sequence[Spoken]) -> Outcome:
        """Compares every prompt."""
        compared = zip(prompts, reference, arm.spoken, strict=True)
        found = [difference(index, len(prompt), *pair) for index, (prompt, *pair) in enumerate(compared)]
        return cls(
            num_tokens=sum(len(spoken.tokens) for spoken in arm.spoken),
            num_drafted=arm.counts.drafted,
            num_accepted=arm.counts.accepted,
            num_hit_tokens=arm.num_hit_tokens,
            seconds=round(arm.seconds, 1),
            differences=tuple(one for one in found if one is not None),
        )

    @property
    def num_different_ids(self) -> int:
        """Output positions with another token."""
        return sum(one.num_ids for one in self.differences)

    @property
    def num_different_rows(self) -> int:
        """Output positions with another token, log-probability, alternative or logit."""
        return sum(one.num_rows for one in self.differences)
