"""The tokenizer wrapper: round trips, streaming, chat, vocabularies compared token by token."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from forerun.errors import ForerunError
from forerun.models.tokenizer import Tokenizer, same_vocabulary, vocabulary_difference

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'robot' %}{{ raise_exception('no robots') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}{% if tools %}{{ tools | length }} tools{% endif %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def byte_tokenizer(extra: tuple[str, ...] = (), template: str | None = None, **kwargs: Any) -> Tokenizer:
    """One token a byte, and an end token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({token: index for index, token in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<end>", normalized=False)])
    backend.add_tokens(list(extra))
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", chat_template=template)
    return Tokenizer(fast, label=kwargs.pop("label", "bytes"), **kwargs)


TOKENIZER = byte_tokenizer()


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_text_survives_and_streams_to_the_same_text(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    stream = TOKENIZER.stream()
    pieces = [stream.push([token]) for token in ids]
    assert "".join(pieces) + stream.finish() == text


@given(st.text(max_size=20), st.lists(st.integers(1, 5), min_size=20, max_size=20))
@settings(max_examples=50, deadline=None)
def test_how_tokens_are_grouped_changes_nothing(text: str, sizes: list[int]) -> None:
    ids = TOKENIZER.encode(text)
    one, grouped = TOKENIZER.stream(), TOKENIZER.stream()
    singles = "".join(one.push([token]) for token in ids)
    pieces, rest = [], ids
    for size in sizes:
        pieces.append(grouped.push(rest[:size]))
        rest = rest[size:]
    assert "".join(pieces) + grouped.push(rest) == singles


def test_incomplete_characters_are_held_back_until_they_are_whole_or_the_text_ends() -> None:
    ids = TOKENIZER.encode("a🙂b")
    stream = TOKENIZER.stream()
    assert [stream.push([token]) for token in ids] == ["a", "", "", "", "🙂", "b"]
    assert stream.finish() == ""
    cut = TOKENIZER.stream()
    assert cut.push(ids[:3]) == "a"
    assert cut.finish() == "�"
    assert cut.finish() == ""


def test_special_tokens_stay_out_of_streamed_text() -> None:
    ids = TOKENIZER.encode("hi<end>")
    assert TOKENIZER.decode(ids) == "hi<end>"
    stream = TOKENIZER.stream()
    assert stream.push(ids) + stream.finish() == "hi"


class Shouting(PreTrainedTokenizerFast):
    """A tokenizer whose text isn't what the library beneath gives."""

    def _decode(self, *args: Any, **kwargs: Any) -> str:
        return super()._decode(*args, **kwargs).upper()


@given(st.lists(st.integers(0, 256), max_size=20), st.booleans())
@settings(max_examples=50, deadline=None)
def test_text_is_the_wrappers_own(ids: list[int], skip_special: bool) -> None:
    backend = TOKENIZER.backend
    shouting = Tokenizer(Shouting(tokenizer_object=backend.backend_tokenizer, eos_token="<end>"), label="shouting")
    text = backend.decode(ids, skip_special_tokens=skip_special, clean_up_tokenization_spaces=False)
    assert TOKENIZER.decode(ids, skip_special) == text
    assert shouting.decode(ids, skip_special) == text.upper()


def test_ends_are_those_given_and_the_tokenizers_own() -> None:
    assert byte_tokenizer(eos_token_ids=[7]).eos_token_ids == (7, 256)
    assert byte_tokenizer(eos_token_ids=[256]).eos_token_ids == (256,)


def test_chat_renders_the_models_own_template() -> None:
    tokenizer = byte_tokenizer(template=TEMPLATE)
    ids = tokenizer.chat([{"role": "user", "content": "hi"}])
    assert tokenizer.decode(ids) == "[user]hi[assistant]"
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    assert "1 tools" in tokenizer.decode(tokenizer.chat([{"role": "user", "content": "hi"}], tools=[tool]))
    with pytest.raises(ForerunError, match="no robots"):
        tokenizer.chat([{"role": "robot", "content": "hi"}])
    with pytest.raises(ForerunError, match="chat template"):
        TOKENIZER.chat([{"role": "user", "content": "hi"}])


def test_vocabularies_are_compared_token_by_token() -> None:
    assert same_vocabulary(TOKENIZER, byte_tokenizer(label="other"))
    longer = byte_tokenizer(("new",), label="longer")
    assert vocabulary_difference(TOKENIZER, longer) == "257 tokens in bytes and 258 in longer"
    other = byte_tokenizer(("old",), label="other")
    assert vocabulary_difference(longer, other) == "id 257 is 'new' in longer and 'old' in other"
    padded = byte_tokenizer(("[PAD257]",), unused=frozenset({257}), label="padded")
    assert same_vocabulary(TOKENIZER, padded), "filling is no token"
