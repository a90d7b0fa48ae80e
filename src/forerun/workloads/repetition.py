"""How repetitive a text is: repeated words draft themselves, and a speed measured on them is inflated.

Prompts and outputs are both scored. A looping output is kept and shown, and left out of the verdict.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

NGRAM = 4
MIN_LOOP_REPEATS = 4
MIN_LOOP_SHARE = 0.3
MIN_LOOP_ITEMS = 16
LOOP_TAIL_SLACK = 8

_BYTES_PER_TOKEN = 3
# Words, single ideographs and kana (which no spaces divide), single marks.
_PIECES = re.compile(r"[぀-ヿ㐀-鿿]|[^\W぀-ヿ㐀-鿿]+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Loop:
    """A periodic tail: ``num_items`` items that repeat every ``period`` items, ``num_items / period`` times."""

    period: int
    num_items: int

    @property
    def num_repeats(self) -> float:
        """How often the period occurs; the last occurrence may be cut."""
        return self.num_items / self.period


@dataclass(frozen=True, slots=True)
class Repetition:
    """Scores of one text.

    ``repeated_ngrams``: share of 4-grams that occurred before in the same text, 0 for text shorter than that.
    ``compressibility``: 1 - zlib size / size, 0 for what zlib can't shrink. Texts are measured as UTF-8 bytes, tokens
    as three bytes each, so the two are not comparable with each other; nor are texts of very different lengths.
    ``loop``: the periodic tail, if there is one (see ``find_loop``).
    """

    num_items: int
    repeated_ngrams: float
    compressibility: float
    loop: Loop | None

    @property
    def is_looping(self) -> bool:
        """Whether the text ends in a loop."""
        return self.loop is not None


def score_tokens(tokens: Sequence[int]) -> Repetition:
    """Repetition of a token list; ids must be below 2**24."""
    packed = b"".join(token.to_bytes(_BYTES_PER_TOKEN, "little") for token in tokens)
    return Repetition(len(tokens), repeated_ngrams(tokens), compressibility(packed), find_loop(tokens))


def score_text(text: str) -> Repetition:
    """Repetition of a text over its words, marks and single ideographs; white space doesn't count."""
    pieces = _PIECES.findall(text)
    return Repetition(len(pieces), repeated_ngrams(pieces), compressibility(text.encode()), find_loop(pieces))


def repeated_ngrams(items: Sequence[Hashable], n: int = NGRAM) -> float:
    """Share of n-grams that occurred earlier in ``items``."""
    total = len(items) - n + 1
    if total <= 0:
        return 0.0
    distinct = len({tuple(items[start : start + n]) for start in range(total)})
    return 1.0 - distinct / total


def compressibility(data: bytes) -> float:
    """1 - zlib size / size, never below 0. zlib looks back 32 KiB."""
    return max(0.0, 1.0 - len(zlib.compress(data, 9)) / len(data)) if data else 0.0


def find_loop(items: Sequence[Hashable]) -> Loop | None:
    """The longest periodic run that ends the text, or ``None``.

    It must repeat at least 4 times, hold at least 16 items and 30 % of the text, and end within the last 8 items, so
    that a closing mark or end token doesn't hide it. Records that differ in a value are no loop.
    """
    needed = max(MIN_LOOP_ITEMS, MIN_LOOP_SHARE * len(items))
    best: Loop | None = None
    for slack in range(min(LOOP_TAIL_SLACK, len(items)) + 1):
        backwards = items[: len(items) - slack][::-1]
        loop = _longest_periodic_prefix(backwards)
        if loop and loop.num_items >= needed and (best is None or loop.num_items > best.num_items):
            best = loop
    return best


def _longest_periodic_prefix(items: Sequence[Hashable]) -> Loop | None:
    """Longest prefix that repeats often enough, by Knuth, Morris and Pratt: its least period is length - border."""
    border = [0] * len(items)
    best: Loop | None = None
    for index in range(1, len(items)):
        width = border[index - 1]
        while width and items[index] != items[width]:
            width = border[width - 1]
        border[index] = width + 1 if items[index] == items[width] else 0
        period = index + 1 - border[index]
        if (index + 1) / period >= MIN_LOOP_REPEATS:
            best = Loop(period, index + 1)
    return best
