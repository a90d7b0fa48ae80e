"""Knobs of SuffixDecoding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from forerun.corpus.config import CorpusConfig
from forerun.errors import ForerunError


@dataclass(frozen=True, slots=True)
class SuffixConfig(CorpusConfig):
    """How far and from what SuffixDecoding drafts. Raises ``ForerunError`` for values out of range.

    ``max_depth`` bounds matched and drafted tokens together; a committed token costs time in proportion to it.
    A match of length l allows floor(``alpha`` * l + ``offset``) tokens, as long as their estimated probability stays at
    ``min_token_prob``. These four default as in arctic-inference.
    """

    max_depth: Annotated[int, "matched and drafted tokens together at most"] = 64
    alpha: Annotated[float, "drafted tokens allowed for each matched one"] = 1.0
    offset: Annotated[float, "drafted tokens allowed beside those of alpha"] = 0.0
    min_token_prob: Annotated[float, "a draft ends where its estimated probability falls below this"] = 0.1

    def __post_init__(self) -> None:
        if self.max_depth < 2:
            raise ForerunError("suffix's max_depth of at least 2", str(self.max_depth), "raise max_depth")
        if not (math.isfinite(self.alpha) and self.alpha >= 0 and math.isfinite(self.offset)):
            raise ForerunError(
                "a finite offset and alpha >= 0", f"alpha={self.alpha}, offset={self.offset}", "correct suffix's knobs"
            )
        if not 0 <= self.min_token_prob <= 1:
            raise ForerunError(
                "min_token_prob between 0 and 1", str(self.min_token_prob), "correct suffix's min_token_prob"
            )
        self.check_limits()

    def budget(self, match_length: int) -> int:
        """Tokens that a match of ``match_length`` allows."""
        return max(0, math.floor(self.alpha * match_length + self.offset))
