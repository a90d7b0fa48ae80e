"""The corpora of one drafter: one that all requests read, and one for each session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forerun.corpus.config import CorpusConfig
from forerun.corpus.corpus import Corpus, new_workers
from forerun.corpus.corpus_part import CorpusPart
from forerun.corpus.read_corpus import read_corpus
from forerun.models.tokenizer import Tokenizer


class Corpora:
    """What a request may draft from besides its own text: the shared corpus, and that of its session alone.

    All sessions together hold at most as much as the shared corpus may; the one that was fed longest ago goes first,
    as a whole.
    """

    def __init__(self, config: CorpusConfig, max_depth: int) -> None:
        self.config = config
        self.max_depth = max_depth
        self._workers = new_workers()
        self.shared = self._new_corpus()
        self._num_proposals = 0
        self._sessions: dict[str, Corpus] = {}
        # Tokens of each session when it was last fed, and of all: sessions may be many.
        self._num_fed: dict[str, int] = {}
        self._num_fed_in_all = 0

    def read_file(self, tokenizer: Tokenizer | None, vocab_size: int | None) -> None:
        """Begin with the file that the configuration names, if any; see ``read_corpus``."""
        if self.config.corpus:
            self.shared.ingest(read_corpus(self.config, tokenizer, vocab_size))

    def feed(self, session: str, output: Sequence[int]) -> None:
        """A request is over: its output enters its session's corpus, or the shared one without a session."""
        if not self.config.feeds_corpus:
            return
        if not session:
            self.shared.feed(output, self._num_proposals)
            return
        corpus = self._sessions.pop(session, None) or self._new_corpus()
        corpus.feed(output, self._num_proposals)
        self._sessions[session] = corpus
        self._num_fed_in_all += corpus.num_tokens - self._num_fed.get(session, 0)
        self._num_fed[session] = corpus.num_tokens
        while self._num_fed_in_all > self.config.max_corpus_tokens:
            gone = next(iter(self._sessions))
            del self._sessions[gone]
            self._num_fed_in_all -= self._num_fed.pop(gone)

    def advance(self, num_proposals: int) -> None:
        """So many proposals are about to be made: the clock by which the corpora take in what is joined meanwhile."""
        self._num_proposals += num_proposals

    def parts(self, session: str, *, newest_first: bool = True) -> Iterator[CorpusPart]:
        """What a request of that session may read: its own session, then the shared corpus, each by age."""
        own = self._sessions.get(session)
        for corpus in (self.shared,) if own is None else (own, self.shared):
            corpus.adopt_due(self._num_proposals)
            yield from reversed(corpus.parts) if newest_first else corpus.parts

    def _new_corpus(self) -> Corpus:
        bounds = self.config.max_corpus_tokens, self.config.max_corpus_sequences
        return Corpus(self.max_depth, *bounds, self._workers)
