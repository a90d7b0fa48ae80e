"""The corpora of one drafter: one that all requests read, and one for each session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forerun.corpus.config import CorpusConfig
from forerun.corpus.corpus import Corpus
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
        self.shared = self._new_corpus()
        self._sessions: dict[str, Corpus] = {}

    def read_file(self, tokenizer: Tokenizer | None, vocab_size: int | None) -> None:
        """Begin with the file that the configuration names, if any; see ``read_corpus``."""
        if self.config.corpus:
            self.shared.ingest(read_corpus(self.config, tokenizer, vocab_size))

    def feed(self, session: str, output: Sequence[int]) -> None:
        """A request is over: its output enters its session's corpus, or the shared one without a session."""
        if not self.config.feeds_corpus:
            return
        if not session:
            self.shared.ingest([output])
            return
        corpus = self._sessions.pop(session, None) or self._new_corpus()
        corpus.ingest([output])
        self._sessions[session] = corpus
        while sum(one.num_tokens for one in self._sessions.values()) > self.config.max_corpus_tokens:
            del self._sessions[next(iter(self._sessions))]

    def parts(self, session: str, *, newest_first: bool = True) -> Iterator[CorpusPart]:
        """What a request of that session may read: its own session, then the shared corpus, each by age."""
        own = self._sessions.get(session)
        for corpus in (self.shared,) if own is None else (own, self.shared):
            yield from reversed(corpus.parts) if newest_first else corpus.parts

    def _new_corpus(self) -> Corpus:
        return Corpus(self.max_depth, self.config.max_corpus_tokens, self.config.max_corpus_sequences)
