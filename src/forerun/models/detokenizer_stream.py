"""Text from tokens as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class DetokenizerStream:
    """Gives text out as soon as it can't change any more; an incomplete UTF-8 sequence is held back.

    Tokens are taken one at a time, so how they were grouped changes nothing. Some tokens decode differently at the
    start of a text, so a few earlier ones stay in view (the two-offset scheme of TGI and vLLM).
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._view = 0  # ids before this are out of view
        self._given = 0  # the text of ids before this was given out

    def push(self, ids: Sequence[int]) -> str:
        """More tokens; the text that they settled, possibly empty."""
        return "".join([self._push_one(token) for token in ids])

    def finish(self) -> str:
        """What was still held back, incomplete bytes as U+FFFD. The stream is empty afterwards."""
        held = self._fresh_text()
        self._ids, self._view, self._given = [], 0, 0
        return held

    def _push_one(self, token: int) -> str:
        self._ids.append(token)
        fresh = self._fresh_text()
        if not fresh or fresh.endswith(_INCOMPLETE):
            return ""
        self._view, self._given = self._given, len(self._ids)
        return fresh

    def _fresh_text(self) -> str:
        known = self._decode(self._ids[self._view : self._given])
        return self._decode(self._ids[self._view :])[len(known) :]
