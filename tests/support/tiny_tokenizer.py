"""A tokenizer for the tiny models: words w0, w1, ..."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from support.tiny_models import VOCABULARY


def save_tokenizer(directory: Path) -> None:
    """Into a model's directory."""
    backend = Backend(models.WordLevel({f"w{index}": index for index in range(VOCABULARY)}, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="w2").save_pretrained(directory)
