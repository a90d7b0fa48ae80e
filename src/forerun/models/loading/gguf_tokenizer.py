"""The tokenizer that a GGUF file describes, rebuilt by transformers and corrected where it cuts text differently."""

from __future__ import annotations

from typing import Any

from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

from forerun.errors import ForerunError
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.tokenizer import Tokenizer

# Kinds by how text is cut before merging (llama.cpp, src/llama-vocab.cpp, pre-tokenizer types). transformers knows the
# second and third group by their expression; the first it would cut like GPT-2, leaving runs of digits whole.
_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
_LIKE_GPT2 = frozenset({"gpt-2", "phi-2", "olmo", "jais"})
_WITH_EXPRESSION = frozenset({"llama3", "llama-v3", "llama-bpe", "tekken", "qwen2", "deepseek-r1-qwen", "qwen35"})

_CONTROL, _UNUSED = 3, 5
# Control tokens that end an answer even where the file's metadata names just one of them.
_ENDS = frozenset({"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>"})


def gguf_tokenizer(file: GGUFFile) -> Tokenizer:
    """Raises ForerunError for a kind of tokenizer that can't be rebuilt exactly."""
    model, kind = file.require("tokenizer.ggml.model"), file.get("tokenizer.ggml.pre", "default")
    known = _SINGLE_DIGITS | _LIKE_GPT2 | _WITH_EXPRESSION
    if model not in ("gpt2", "llama") or (model == "gpt2" and kind not in known):
        raise ForerunError(
            f"a tokenizer of kind llama, or gpt2 cut like {', '.join(sorted(known))}",
            f"{model} cut like {kind} in {file.path}",
            "use the model's Hugging Face directory",
        )
    backend: Any = AutoTokenizer.from_pretrained(str(file.path.parent), gguf_file=file.path.name)
    if model == "gpt2" and kind in _SINGLE_DIGITS:
        backend.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    types = file.get("tokenizer.ggml.token_type", [])
    tokens = file.require("tokenizer.ggml.tokens")
    ends = [index for index, kind in enumerate(types) if kind == _CONTROL and tokens[index] in _ENDS]
    stated = [file.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    return Tokenizer(
        backend,
        label=file.path.name,
        eos_token_ids=[int(index) for index in stated if index is not None] + ends,
        unused=frozenset(index for index, kind in enumerate(types) if kind == _UNUSED),
    )
