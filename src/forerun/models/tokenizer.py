"""A model's own tokenizer and chat template behind the few calls that forerun needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from forerun.errors import ForerunError
from forerun.models.detokenizer_stream import DetokenizerStream


class Tokenizer:
    """Wraps a fast transformers tokenizer. ``unused`` are ids that only fill the vocabulary up."""

    def __init__(
        self, backend: Any, *, label: str, eos_token_ids: Sequence[int] = (), unused: frozenset[int] = frozenset()
    ) -> None:
        self.backend = backend
        self.label = label
        own = () if backend.eos_token_id is None else (int(backend.eos_token_id),)
        self.eos_token_ids: tuple[int, ...] = tuple(dict.fromkeys((*eos_token_ids, *own)))
        self._unused = unused
        self._decode = _decoder_of(backend)

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """Token ids; ``add_special`` adds what the model expects around a plain text (often a BOS token)."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ForerunError("text that is valid Unicode", str(error), "remove the lone surrogate") from error
        return list(self.backend.encode(text, add_special_tokens=add_special))

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """Text of all ids at once; bytes that are no UTF-8 become U+FFFD."""
        return self._decode(list(ids), skip_special_tokens=skip_special)

    def stream(self, *, skip_special: bool = True) -> DetokenizerStream:
        """An incremental ``decode`` for one output."""
        return DetokenizerStream(partial(self._decode, skip_special_tokens=skip_special))

    @cached_property
    def vocabulary(self) -> tuple[str | None, ...]:
        """The token behind each id, None where there is none; filling at the end is left away."""
        tokens = {int(index): token for token, index in self.backend.get_vocab().items() if index not in self._unused}
        return tuple(tokens.get(index) for index in range(max(tokens, default=-1) + 1))

    @property
    def has_chat_template(self) -> bool:
        """Whether ``chat`` can be called."""
        return bool(self.backend.chat_template)

    @property
    def takes_tools(self) -> bool:
        """Whether the chat template has a place for tools."""
        return self.has_chat_template and "tools" in str(self.backend.chat_template)

    def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]:
        """Prompt ids of a conversation, up to where the assistant's answer begins.

        Raises ForerunError for a model without a template, and for messages that its template refuses.
        """
        if not self.has_chat_template:
            raise ForerunError("a model with a chat template", f"none in {self.label}", "use it without --chat")
        try:
            rendered = self.backend.apply_chat_template(
                [dict(message) for message in messages],
                tools=None if tools is None else [dict(tool) for tool in tools],
                add_generation_prompt=True,
                tokenize=False,
            )
        except Exception as error:  # a template is a program of the model's maker and raises what it likes
            raise ForerunError(
                f"messages that the chat template of {self.label} accepts", str(error), "change the messages"
            ) from error
        return self.encode(rendered, add_special=False)


def _decoder_of(backend: Any) -> Callable[..., str]:
    """``backend.decode`` of a list of ids, or the call of the library beneath that it comes down to."""
    from transformers import PreTrainedTokenizerFast as Plain

    kind = type(backend)
    if issubclass(kind, Plain) and kind.decode is Plain.decode and kind._decode is Plain._decode:
        plain: Callable[..., str] = backend.backend_tokenizer.decode
        return plain
    return partial(backend.decode, clean_up_tokenization_spaces=False)


def vocabulary_difference(a: Tokenizer, b: Tokenizer) -> str | None:
    """The first id at which two vocabularies differ, in words; None where they are the same token by token."""
    for index, (ours, theirs) in enumerate(zip(a.vocabulary, b.vocabulary)):
        if ours != theirs:
            return f"id {index} is {ours!r} in {a.label} and {theirs!r} in {b.label}"
    if len(a.vocabulary) != len(b.vocabulary):
        return f"{len(a.vocabulary)} tokens in {a.label} and {len(b.vocabulary)} in {b.label}"
    return None


def same_vocabulary(a: Tokenizer, b: Tokenizer) -> bool:
    """Whether ids mean the same in both. The sizes of the heads don't matter, only the tokens do."""
    return vocabulary_difference(a, b) is None
