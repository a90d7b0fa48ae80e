"""A whole tiny model as a person has it on disk: random weights, a tokenizer over bytes, a chat template."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<s>", "</s>")
CONTEXT = 4096
TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}<s>assistant: "


def save_tiny_directory(
    directory: Path, *, seed: int = 7, num_layers: int = 2, is_alphabet_reversed: bool = False, context: int = CONTEXT
) -> Path:
    """Saves a llama of one token per byte and returns its directory. ``is_alphabet_reversed``: another tokenizer."""
    tokenizer = _byte_tokenizer(is_alphabet_reversed)
    tokenizer.save_pretrained(directory)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        "llama",
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=num_layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=context,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model: Any = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(directory)
    return directory


def _byte_tokenizer(is_alphabet_reversed: bool) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=is_alphabet_reversed)
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *alphabet))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    pad, begin, end = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=pad, bos_token=begin, eos_token=end, chat_template=TEMPLATE
    )


def files_below(directory: Path) -> Iterator[Path]:
    """Every file, for tests that look for leftovers."""
    return (path for path in directory.rglob("*") if path.is_file())
