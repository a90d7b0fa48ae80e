"""Knobs of prompt lookup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from forerun.corpus.config import CorpusConfig
from forerun.errors import ForerunError

Occurrence = Literal["latest", "earliest"]


# The index keeps an entry per length and token.
MAX_MATCH = 64


@dataclass(frozen=True, slots=True)
class NgramConfig(CorpusConfig):
    """How the end of the text is looked up in what came before. Raises ``ForerunError`` for lengths out of order.

    ``min_n`` and ``max_n`` bound the match in tokens. One token alone recurs everywhere and says little about what
    follows, so the shortest default match is two; past four a longer match seldom points elsewhere.
    ``occurrence``: which one of several equally long matches is continued. ``allow_overlap``: whether a match may
    share tokens with the end it matches; without, every match is followed by at least as many tokens as it has.
    """

    min_n: Annotated[int, "shortest match that is looked up, in tokens"] = 2
    max_n: Annotated[int, f"longest match that is looked up, in tokens (at most {MAX_MATCH})"] = 4
    occurrence: Annotated[Occurrence, "which of equally long matches is continued: latest or earliest"] = "latest"
    allow_overlap: Annotated[bool, "a match may share tokens with the end that it matches"] = False

    def __post_init__(self) -> None:
        if not 1 <= self.min_n <= self.max_n:
            raise ForerunError(
                "1 <= min_n <= max_n", f"min_n={self.min_n}, max_n={self.max_n}", "correct ngram's match lengths"
            )
        if self.max_n > MAX_MATCH:
            raise ForerunError(f"max_n of at most {MAX_MATCH}", f"max_n={self.max_n}", "lower ngram's max_n")
        if self.occurrence not in ("latest", "earliest"):
            raise ForerunError("occurrence latest or earliest", repr(self.occurrence), "choose one of the two")
        self.check_limits()
