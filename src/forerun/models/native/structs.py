"""The C interface's structures (csrc/forerun_kernels.h), field by field."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from typing import ClassVar

import torch
from torch import Tensor

KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2}
BLOCKS = 3  # panels of a GGUF file's blocks
ACTIVATIONS = {"silu": 0, "gelu_tanh": 1}


class LinearStruct(Structure):
    """``fr_linear``."""

    _fields_: ClassVar = [
        ("kind", c_int32),
        ("num_outputs", c_int32),
        ("num_inputs", c_int32),
        ("weights", c_void_p),
        ("bias", c_void_p),
    ]


class BlockPanelStruct(Structure):
    """``fr_block_panel``."""

    _fields_: ClassVar = [("format", c_int64), ("blocks", c_void_p)]


class LayerStruct(Structure):
    """``fr_layer``."""

    _fields_: ClassVar = [
        ("qkv", LinearStruct),
        ("output", LinearStruct),
        ("gate_up", LinearStruct),
        ("down", LinearStruct),
        ("attention_norm", c_void_p),
        ("query_norm", c_void_p),
        ("key_norm", c_void_p),
        ("attention_output_norm", c_void_p),
        ("mlp_norm", c_void_p),
        ("mlp_output_norm", c_void_p),
        ("window", c_int32),
        ("rotary", c_int32),
    ]


class DecoderStruct(Structure):
    """``fr_decoder``."""

    _fields_: ClassVar = [
        ("hidden", c_int32),
        ("intermediate", c_int32),
        ("num_heads", c_int32),
        ("num_kv_heads", c_int32),
        ("head_dim", c_int32),
        ("num_layers", c_int32),
        ("activation", c_int32),
        ("norm_eps", c_float),
        ("attention_scale", c_float),
        ("attention_softcap", c_float),
        ("final_softcap", c_float),
        ("layers", POINTER(LayerStruct)),
        ("final_norm", c_void_p),
        ("head", LinearStruct),
    ]


class PassStruct(Structure):
    """``fr_pass``."""

    _fields_: ClassVar = [
        ("num_rows", c_int32),
        ("num_groups", c_int32),
        ("num_logit_rows", c_int32),
        ("pool_kind", c_int32),
        ("num_slots", c_int64),
        ("x", c_void_p),
        ("positions", c_void_p),
        ("slots", c_void_p),
        ("group_row_start", c_void_p),
        ("group_rows", c_void_p),
        ("group_slot_start", c_void_p),
        ("group_slots", c_void_p),
        ("cosines", POINTER(c_void_p)),
        ("sines", POINTER(c_void_p)),
        ("keys", POINTER(c_void_p)),
        ("values", POINTER(c_void_p)),
        ("key_scales", POINTER(c_void_p)),
        ("value_scales", POINTER(c_void_p)),
        ("taps", POINTER(c_void_p)),
        ("normed", c_void_p),
        ("logit_rows", c_void_p),
        ("logits", c_void_p),
    ]


def pointers(tensors: list[Tensor] | list[Tensor | None]) -> ctypes.Array[c_void_p]:
    """A C array of the tensors' addresses, null for None. The tensors must outlive it."""
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
    return (c_void_p * max(1, len(addresses)))(*addresses)
