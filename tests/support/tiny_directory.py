"""A whole tiny model as a person has it on disk: random weights, a tokenizer, a chat template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<s>", "</s>")
CONTEXT = 4096
TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}<s>assistant: "


def save_tiny_directory(
    directory: Path,
    *,
    seed: int = 7,
    num_layers: int = 2,
    is_alphabet_reversed: bool = False,
    context: int = CONTEXT,
    texts: Sequence[str] = (),
) -> Path:
    """Saves a llama and returns its directory.

    Its tokens are bytes, in another order with ``is_alphabet_reversed``, and pieces of words learnt from ``texts``.
    """
    backend = _learnt(texts) if texts else _bytes(is_alphabet_reversed)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    pad, begin, end = SPECIAL
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=pad, bos_token=begin, eos_token=end, chat_template=TEMPLATE
    )
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


def _bytes(is_alphabet_reversed: bool) -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=is_alphabet_reversed)
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *alphabet))}
    return Tokenizer(models.BPE(vocab=vocabulary, merges=[]))


def _learnt(texts: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=1024, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
        ),
    )
    return tokenizer
