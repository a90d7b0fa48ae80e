"""What a verification decided."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """Accepted draft rows, from the anchor's child down one path, and the tokens to commit.

    ``tokens`` are the accepted rows' tokens and the target's own next one, which is absent only where an accepted
    token ended the text.
    """

    accepted_rows: tuple[int, ...]
    tokens: tuple[int, ...]

    @property
    def num_accepted(self) -> int:
        """Drafted tokens that are committed."""
        return len(self.accepted_rows)
