"""Knobs that all methods with a corpus share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from forerun.errors import ForerunError


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusConfig:
    """What a method drafts from besides the request's own text. Raises ``ForerunError`` for negative limits.

    ``corpus`` names a file to begin with (docs/retrieval.md); empty: nothing.
    ``max_corpus_tokens`` and ``max_corpus_sequences`` bound the shared corpus, oldest sequence first to go.
    ``feeds_corpus``: whether a request's output enters the corpus when it ends: that of its session, if it names one,
    else the shared one. Off by default: a repeated prompt would find its own answer there, and tenants without a
    session would share text.
    """

    corpus: Annotated[str, "a file to begin with, read whenever an engine is built"] = ""
    max_corpus_tokens: Annotated[int, "tokens held at most"] = 1_000_000
    max_corpus_sequences: Annotated[int, "sequences held at most"] = 10_000
    feeds_corpus: Annotated[bool, "a finished request's output (not its prompt) enters the corpus"] = False

    def check_limits(self) -> None:
        """Raises ``ForerunError`` for negative limits."""
        if self.max_corpus_tokens < 0 or self.max_corpus_sequences < 0:
            raise ForerunError(
                "corpus limits of at least 0",
                f"max_corpus_tokens={self.max_corpus_tokens}, max_corpus_sequences={self.max_corpus_sequences}",
                "correct the corpus limits",
            )
