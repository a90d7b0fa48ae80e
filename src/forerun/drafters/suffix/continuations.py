"""What SuffixDecoding reads, be it a growing tree or a frozen part of a corpus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

State = TypeVar("State")


class Continuations(Protocol[State]):
    """How often a context occurs and what comes next; ``State`` names a context."""

    def count(self, state: State) -> int:
        """How often the context occurs."""

    def highest_count(self, state: State) -> int:
        """How often the most frequent next token follows; 0 if nothing does."""

    def followers(self, state: State, lowest_count: int = 0) -> Iterable[tuple[int, int, State]]:
        """(token, count, state) of what comes next so often at least, most frequent first and then newest."""

    def most_frequent_path(self, state: State, num_tokens: int, lowest_count: int) -> tuple[list[int], list[int]]:
        """Up to ``num_tokens`` tokens, each the most frequent next, with their counts while at ``lowest_count``."""
