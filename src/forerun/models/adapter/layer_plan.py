"""What the adapter knows of one attention call of a model before any pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """One attention call: where its keys live and what it may see.

    ``pool`` is the pool layer; ``writes`` is false where the layer reads keys that an earlier layer has written
    (shared KV). Keys are [slots, num_kv_heads, key_width], values [slots, num_kv_heads, value_width]. ``window`` is
    how many of the newest positions a row sees, itself included; ``None`` means all.
    """

    pool: int
    writes: bool
    num_kv_heads: int
    key_width: int
    value_width: int
    window: int | None
