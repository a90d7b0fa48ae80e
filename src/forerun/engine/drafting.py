"""How an engine drafts: method, N, shape and knobs, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forerun.drafters.base import DraftLimit
from forerun.drafters.registry import METHODS
from forerun.errors import ForerunError

DEFAULT_TREE_ROWS_PER_TOKEN = 2
NOTHING = DraftLimit(0, 0)


@dataclass(frozen=True, slots=True)
class Drafting:
    """A method with its N (``num_speculative_tokens``: the longest path), its shape and the method's own knobs.

    ``num_rows`` bounds the tokens of a tree in all and defaults to twice N; a chain never has more than N.
    """

    method: str = "off"
    num_speculative_tokens: int = 0
    is_tree: bool = False
    num_rows: int | None = None
    knobs: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.num_rows is not None and not self.is_tree:
            raise ForerunError(
                "a row bound only with a tree", f"num_rows={self.num_rows} for a chain", "drop it or ask for a tree"
            )
        if self.num_rows is not None and self.num_rows < self.num_speculative_tokens:
            raise ForerunError(
                f"at least N = {self.num_speculative_tokens} rows for a tree", f"{self.num_rows}", "raise num_rows"
            )

    @property
    def max_rows(self) -> int:
        """Draft rows that one round of one request can take."""
        if not self.is_tree:
            return self.num_speculative_tokens
        return self.num_rows or DEFAULT_TREE_ROWS_PER_TOKEN * self.num_speculative_tokens

    def limit(self, num_tokens_left: int, num_rows_left: int) -> DraftLimit:
        """What may be drafted when ``num_tokens_left`` may still be emitted and ``num_rows_left`` rows are to be had.

        A round emits one token more than it accepts, so the last token is never drafted.
        """
        num_tokens = min(self.num_speculative_tokens, num_tokens_left - 1, num_rows_left)
        if num_tokens <= 0:
            return NOTHING
        return DraftLimit(num_tokens, min(self.max_rows, num_rows_left) if self.is_tree else num_tokens, self.is_tree)


def most_draft_rows() -> int:
    """Rows of the largest draft that any method makes of one request, trees of the default size included."""
    infos = [method.info for method in METHODS.values()]
    return max(
        info.max_num_speculative_tokens * (DEFAULT_TREE_ROWS_PER_TOKEN if info.has_trees else 1) for info in infos
    )
