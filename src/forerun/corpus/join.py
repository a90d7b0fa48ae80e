"""Parts that become one beside the engine's work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from forerun.corpus.context_order import Ints
from forerun.corpus.corpus_part import CorpusPart
from forerun.corpus.separated import joined, sequence_lengths, without_first

# Proposals until a join is due: some, and one for so many tokens. Indexing takes one or two microseconds a token; a
# proposal comes with a row of a pass, which takes hundreds.
DUE_AFTER = 32
TOKENS_A_PROPOSAL = 256


class Join:
    """One part in the making, on another thread: older parts and perhaps a newer text, less ``num_gone`` sequences
    from the front.

    Until it is adopted ``parts`` are read in its place. It is adopted at proposal number ``due``, ready or not: what is
    read when depends on the order of events and never on how fast the thread was.
    """

    def __init__(
        self,
        parts: Sequence[CorpusPart],
        texts: Sequence[Ints],
        max_depth: int,
        workers: Executor,
        *,
        now: int,
        num_gone: int = 0,
    ) -> None:
        self.parts: Sequence[CorpusPart] = tuple(parts)
        self.num_sequences = sum(part.num_sequences for part in parts) + sum(
            len(sequence_lengths(text)) for text in texts
        )
        self.num_tokens = sum(len(text) - 1 for text in [*(part.text for part in parts), *texts]) - self.num_sequences
        self.due = now + DUE_AFTER + self.num_tokens // TOKENS_A_PROPOSAL
        self._made = workers.submit(_made, [*(part.text for part in parts), *texts], num_gone, max_depth)

    def result(self) -> CorpusPart:
        """The new part, waited for if need be; raises what indexing raised."""
        return self._made.result()

    def let_go(self) -> Callable[[], None]:
        """Hand over the older parts; calling what comes back forgets them."""
        parts, self.parts = list(self.parts), ()
        return parts.clear


def _made(texts: Sequence[Ints], num_gone: int, max_depth: int) -> CorpusPart:
    return CorpusPart(without_first(joined(texts), num_gone), max_depth)
