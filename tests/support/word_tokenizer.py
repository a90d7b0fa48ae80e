"""A tokenizer of syllables, whose text runs on without spaces so that strings can cross token borders."""

from __future__ import annotations

from itertools import product

from tokenizers import Tokenizer as Rust
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from forerun.models.tokenizer import Tokenizer

SYLLABLES = ["".join(letters) for letters in product("bdfgklmn", "aeiou", "rst")]


def word_tokenizer(vocab_size: int, eos_token_id: int = 2) -> Tokenizer:
    """One syllable per id, at most 120 of them; ``eos_token_id`` is a special token that gives no text."""
    words = {word: index for index, word in enumerate(SYLLABLES[:vocab_size])}
    assert len(words) == vocab_size, "more ids than syllables"
    rust = Rust(models.WordLevel(words, unk_token=SYLLABLES[0]))
    rust.decoder = decoders.Fuse()
    backend = PreTrainedTokenizerFast(tokenizer_object=rust, eos_token=SYLLABLES[eos_token_id])
    return Tokenizer(backend, label="syllables")
