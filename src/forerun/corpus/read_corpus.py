"""Reads the file that a corpus begins with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forerun.corpus.config import CorpusConfig
from forerun.corpus.context_order import Ints
from forerun.errors import ForerunError
from forerun.models.tokenizer import Tokenizer


def read_corpus(config: CorpusConfig, tokenizer: Tokenizer | None, vocab_size: int | None) -> list[Ints]:
    """The file's sequences of token ids, empty ones left away.

    ``.npy``: integers, [n], where negative ones separate sequences. ``.jsonl``: an object a line with ``tokens`` or
    ``text``. Anything else: one UTF-8 text. Raises ``ForerunError`` for what can't be read or does not fit the bounds,
    for ids from ``vocab_size`` on, and for text without a tokenizer.
    """
    path = Path(config.corpus)
    try:
        if path.suffix == ".npy":
            found = list(_array(path))
        elif path.suffix == ".jsonl":
            found = [_line(path, number, line, tokenizer) for number, line in _lines(path)]
        else:
            found = [_encoded(path, path.read_text(encoding="utf-8"), tokenizer)]
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        raise ForerunError("a corpus file that can be read", reason, "correct the path") from error
    except UnicodeDecodeError as error:
        reason = f"byte 0x{error.object[error.start]:02x} in {path}"
        raise ForerunError("a corpus file that can be read as UTF-8", reason, "convert it to UTF-8") from error
    found = [one for one in found if len(one)]
    _check(path, found, config, vocab_size)
    return found


def _array(path: Path) -> Iterator[Ints]:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ForerunError("a .npy file of integers", f"{path} ({error})", "save it with numpy.save") from error
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ForerunError("a .npy file of integers, [n]", f"{path} with {array.dtype}, {array.shape}", "flatten it")
    for run in np.split(array, np.flatnonzero(array < 0)):
        yield _ids(path, run[run >= 0])


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


def _line(path: Path, number: int, line: str, tokenizer: Tokenizer | None) -> Ints:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ForerunError("a JSON object a line", f"line {number} of {path} ({error})", "correct the line") from error
    match row:
        case {"tokens": list(tokens)} if all(type(token) is int and token >= 0 for token in tokens):
            return _ids(path, np.array(tokens, dtype=np.int64))
        case {"text": str(text)}:
            return _encoded(path, text, tokenizer)
    raise ForerunError('an object with "tokens" or "text"', f"line {number} of {path}", "correct the line")


def _encoded(path: Path, text: str, tokenizer: Tokenizer | None) -> Ints:
    if tokenizer is None:
        raise ForerunError("a tokenizer for a corpus of text", f"none for {path}", "give token ids (.npy)")
    return _ids(path, np.array(tokenizer.encode(text, add_special=False), dtype=np.int64))


def _ids(path: Path, tokens: NDArray[np.integer[Any]]) -> Ints:
    if tokens.size and int(tokens.max()) > np.iinfo(np.int32).max:
        raise ForerunError("token ids of 31 bits", f"{int(tokens.max())} in {path}", "correct the corpus")
    return tokens.astype(np.int32)


def _check(path: Path, found: list[Ints], config: CorpusConfig, vocab_size: int | None) -> None:
    """Nothing is left away in silence, and no draft can name a token that the target does not have."""
    num_tokens = sum(map(len, found))
    if num_tokens > config.max_corpus_tokens or len(found) > config.max_corpus_sequences:
        raise ForerunError(
            f"a corpus of at most {config.max_corpus_tokens} tokens and {config.max_corpus_sequences} sequences",
            f"{num_tokens} tokens in {len(found)} sequences in {path}",
            "raise max_corpus_tokens or max_corpus_sequences, or shorten the file",
        )
    if vocab_size is not None and found:
        highest = max(int(one.max()) for one in found)
        if highest >= vocab_size:
            raise ForerunError(
                f"token ids under {vocab_size}", f"{highest} in {path}", "encode it with this target's tokenizer"
            )
