"""Short names of number types, the same for weights and for keys and values."""

from __future__ import annotations

_FULL_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def full_dtype_name(name: str) -> str:
    """``bfloat16`` for ``bf16``, and so on; any other name as it is."""
    return _FULL_NAMES.get(name, name)
