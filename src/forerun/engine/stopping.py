"""Where a request's text ends. Cuts happen after verification, so they can't bias it."""

from __future__ import annotations

from dataclasses import dataclass, field

from forerun.models.detokenizer_stream import DetokenizerStream


@dataclass(slots=True)
class TextWatcher:
    """Turns tokens into text as it becomes final, and finds stop strings across token borders.

    Without a detokenizer there is no text, and nothing to stop at. Text that may be the beginning of a stop string is
    held back until it is decided.
    """

    detokenizer: DetokenizerStream | None
    stops: tuple[str, ...] = ()
    text: str = ""
    is_stopped: bool = False
    _pending: str = field(default="")

    def push(self, token: int, *, may_stop: bool) -> str:
        """Text that became final with ``token``. ``may_stop`` is False below the request's minimum length."""
        if self.detokenizer is None:
            return ""
        piece = self.detokenizer.push([token])
        if not self.stops:  # then nothing is held back
            self.text += piece
            return piece
        self._pending += piece
        return self._settle(may_stop=may_stop, is_last=False)

    def finish(self, *, may_stop: bool = True) -> str:
        """Text that was held back, once no more tokens come."""
        if self.detokenizer is None or self.is_stopped:
            return ""
        self._pending += self.detokenizer.finish()
        return self._settle(may_stop=may_stop, is_last=True)

    def _settle(self, *, may_stop: bool, is_last: bool) -> str:
        if may_stop:
            found = [at for at in (self._pending.find(stop) for stop in self.stops) if at >= 0]
            if found:
                self.is_stopped = True
                return self._release(min(found), drop_rest=True)
        num_held = 0 if is_last else self._num_undecided()
        return self._release(len(self._pending) - num_held, drop_rest=False)

    def _num_undecided(self) -> int:
        """Characters at the end of the pending text that a stop string may begin with."""
        longest = max((len(stop) for stop in self.stops), default=1) - 1
        for length in range(min(longest, len(self._pending)), 0, -1):
            if any(stop.startswith(self._pending[-length:]) for stop in self.stops):
                return length
        return 0

    def _release(self, length: int, *, drop_rest: bool) -> str:
        piece, rest = self._pending[:length], self._pending[length:]
        self._pending = "" if drop_rest else rest
        self.text += piece
        return piece
