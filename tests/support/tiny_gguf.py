"""Tiny GGUF files written with the ``gguf`` library from transformers models, and raw blocks of any quantisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

ByteArray = np.ndarray[Any, np.dtype[np.uint8]]
TOKENS = [f"<t{index}>" for index in range(3)] + [chr(0x100 + index) for index in range(93)] + [chr(0x100) + chr(0x101)]


def raw_blocks(kind: gguf.GGMLQuantizationType, shape: tuple[int, int], seed: int = 0) -> ByteArray:
    """Random bytes that every type reads as finite numbers: no half-precision field can be infinite or NaN."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    return generator.integers(0, 0x38, (shape[0], shape[1] // block * size), dtype=np.uint8)


def readable_types() -> list[gguf.GGMLQuantizationType]:
    """Every type that the installed library dequantises."""
    readable = []
    for kind in gguf.GGMLQuantizationType:
        block, _ = gguf.GGML_QUANT_SIZES[kind]
        try:
            gguf.dequantize(raw_blocks(kind, (1, block)), kind)
        except NotImplementedError:
            continue
        readable.append(kind)
    return readable


def interleaved(tensor: torch.Tensor, num_heads: int) -> torch.Tensor:
    """q or k rows as llama's GGUF files hold them: 0, w/2, 1, w/2 + 1, ... within each head."""
    halves = tensor.reshape(num_heads, 2, -1, *tensor.shape[1:])
    return halves.transpose(1, 2).reshape(tensor.shape)


def write_gguf(
    path: Path,
    model: Any,
    architecture: str,
    kinds: dict[str, gguf.GGMLQuantizationType] | None = None,
    metadata: dict[str, Any] | None = None,
    skip: frozenset[str] = frozenset(),
    extra: tuple[str, ...] = (),
) -> dict[str, torch.Tensor]:
    """Writes ``model``; ``kinds`` chooses the type of tensors by their GGUF name's end (default F32).

    Returns the values that the file stands for, by Hugging Face name, ready for ``load_state_dict``.
    """
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * 3 + [1] * 94)
    writer.add_token_merges([f"{TOKENS[3]} {TOKENS[4]}"])
    writer.add_eos_token_id(2)
    for key, value in (metadata or {}).items():
        add = {float: writer.add_float32, int: writer.add_uint32, str: writer.add_string, bool: writer.add_bool}
        add[type(value)](key, value)
    stored = _add_tensors(writer, model, architecture, kinds or {}, skip)
    for name in extra:
        writer.add_tensor(name, np.zeros(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stored


def _add_tensors(
    writer: gguf.GGUFWriter,
    model: Any,
    architecture: str,
    kinds: dict[str, gguf.GGMLQuantizationType],
    skip: frozenset[str],
) -> dict[str, torch.Tensor]:
    config = model.config
    (arch,) = (kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    table = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    stored: dict[str, torch.Tensor] = {}
    for name, value in model.state_dict().items():
        tensor = value.float()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        offset = 1.0 if architecture == "gemma3" and name.endswith("norm.weight") else 0.0
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        turned = next((count for part, count in heads.items() if part in name and architecture == "llama"), None)
        target = table.get_name(name, try_suffixes=(".weight", ".bias"))
        assert target is not None
        if target in skip:
            continue
        values = (interleaved(tensor, turned) if turned else tensor + offset).numpy()
        kind = next((kind for end, kind in kinds.items() if target.endswith(end)), gguf.GGMLQuantizationType.F32)
        data = gguf.quantize(values, kind)
        writer.add_tensor(target, data, raw_dtype=kind)
        back = torch.tensor(gguf.dequantize(data, kind)).reshape(tensor.shape)
        if turned:
            back = back.reshape(turned, -1, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)
        stored[name] = back - offset
    return stored
