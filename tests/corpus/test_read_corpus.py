"""The file that a corpus begins with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forerun.drafters.base import TargetView
from forerun.drafters.method import BuildContext
from forerun.drafters.registry import build
from forerun.errors import ForerunError
from support.toy_target import ToyTarget


class Letters:
    """A tokenizer with a token for each letter."""

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        assert not add_special, "a corpus is no prompt"
        return [ord(letter) - ord("a") for letter in text if letter.isalpha()]


LETTERS: Any = Letters()


@pytest.fixture
def context() -> BuildContext:
    return BuildContext(TargetView(ToyTarget(order=0)), LETTERS)


def read(path: Path, context: BuildContext | None = None, **knobs: object) -> list[list[int]]:
    drafter: Any = build("suffix", {"corpus": str(path), **knobs}, context)
    return [one.tolist() for part in drafter.corpus.parts for one in part.sequences()]


def test_ids_with_separators(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([1, 2, -1, -1, 3, 4, 5, -1]))
    assert read(tmp_path / "ids.npy") == [[1, 2], [3, 4, 5]]
    drafter: Any = build("ngram", {"corpus": str(tmp_path / "ids.npy")})
    assert drafter.corpus.num_tokens == 5


def test_lines_of_tokens_and_text(tmp_path: Path, context: BuildContext) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"tokens": [4, 5]}, {"text": "abc"}, {"tokens": []}])) + "\n\n")
    assert read(path, context) == [[4, 5], [0, 1, 2]]


def test_any_other_file_is_one_text(tmp_path: Path, context: BuildContext) -> None:
    (tmp_path / "notes.md").write_text("ab\ncd")
    assert read(tmp_path / "notes.md", context) == [[0, 1, 2, 3]]


def test_an_id_that_the_target_lacks_is_refused(tmp_path: Path, context: BuildContext) -> None:
    assert context.view is not None
    vocab_size = context.view.target.traits.vocab_size
    np.save(tmp_path / "ids.npy", np.array([1, vocab_size]))
    with pytest.raises(ForerunError, match=f"token ids under {vocab_size}; found {vocab_size}"):
        read(tmp_path / "ids.npy", context)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("missing.npy", None, r"can be read; found .*missing\.npy: No such file or directory; correct the path$"),
        ("missing.txt", None, r"can be read; found .*missing\.txt: No such file or directory; correct the path$"),
        ("bytes.txt", b"\xff\xfe", r"as UTF-8; found byte 0xff in .*bytes\.txt; convert it to UTF-8$"),
        ("text.txt", b"abc", "a tokenizer for a corpus of text"),
        ("text.jsonl", b'{"text": "abc"}', "a tokenizer for a corpus of text"),
        ("broken.jsonl", b'{"tokens": [1]}\n{"tok', "line 2"),
        ("other.jsonl", b'{"prompt": "abc"}', '"tokens" or "text"'),
        ("floats.jsonl", b'{"tokens": [1.5]}', '"tokens" or "text"'),
        ("negative.jsonl", b'{"tokens": [-1]}', '"tokens" or "text"'),
        ("huge.jsonl", b'{"tokens": [3000000000]}', "31 bits"),
        ("broken.npy", b"abc", "a .npy file of integers"),
        ("empty.npy", b"", "a .npy file of integers"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, content: bytes | None, expected: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ForerunError, match=expected):
        read(tmp_path / name)


@pytest.mark.parametrize("array", [np.zeros((2, 2), dtype=np.int32), np.zeros(3)])
def test_only_a_row_of_integers_is_read(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "ids.npy", array)
    with pytest.raises(ForerunError, match=r"integers, \[n\]"):
        read(tmp_path / "ids.npy")


@pytest.mark.parametrize("knobs", [{"max_corpus_tokens": 4}, {"max_corpus_sequences": 1}])
def test_a_file_over_the_bounds_is_refused_and_not_cut(tmp_path: Path, knobs: dict[str, object]) -> None:
    np.save(tmp_path / "ids.npy", np.array([1, 2, -1, 3, 4, 5]))
    with pytest.raises(ForerunError, match="5 tokens in 2 sequences"):
        read(tmp_path / "ids.npy", **knobs)
