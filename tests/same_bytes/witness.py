"""A recorder for comparisons between runs: it keeps every answer, contradictions too, as digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from torch import Tensor

from forerun.models.base import Target
from support.recording_target import RecordingTarget


class Witness(RecordingTarget):
    """Another target, with a digest of the logits of every row kept under the tokens that the row could see."""

    def __init__(self, inner: Target) -> None:
        super().__init__(inner)
        self._digests: dict[tuple[int, ...], set[str]] = {}

    def digest_after(self, tokens: Sequence[int]) -> str:
        """Of the rows that saw exactly ``tokens``; several digests where they said several things."""
        return " and ".join(sorted(self._digests[tuple(tokens)]))

    def _keep(self, seen: Tensor, logits: Tensor) -> None:
        digest = hashlib.sha256(logits.numpy().tobytes()).hexdigest()[:16]
        self._digests.setdefault(tuple(seen.tolist()), set()).add(digest)
