"""Sequences in one array: a separator in front, behind and between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forerun.corpus.context_order import SEPARATOR, Ints


def separated(sequences: Sequence[Ints]) -> Ints:
    """The sequences, none of them empty, as one text."""
    gap = np.full(1, SEPARATOR, dtype=np.int32)
    return np.concatenate([gap, *(array for sequence in sequences for array in (sequence, gap))])


def joined(texts: Sequence[Ints]) -> Ints:
    """The sequences of several texts, of at least one, in order as one text."""
    return np.concatenate([texts[0], *(text[1:] for text in texts[1:])])


def sequence_lengths(text: Ints) -> Ints:
    """Tokens of each sequence, [sequences]."""
    return (np.diff(np.flatnonzero(text == SEPARATOR)) - 1).astype(np.int32)


def without_first(text: Ints, num_sequences: int) -> Ints:
    """The text without its first sequences; not a copy. One sequence at least must stay."""
    return text[np.flatnonzero(text == SEPARATOR)[num_sequences] :]
