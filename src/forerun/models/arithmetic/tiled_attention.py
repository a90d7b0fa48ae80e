"""Attention whose bits depend on a row's own keys alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from forerun.models.arithmetic.attention import CPU, Attention
from forerun.models.attention import attend
from forerun.models.attention_plan import AttentionPlan, plan_attention
from forerun.models.base import AttentionGroup
from forerun.models.kv_layer import KVLayer


class TiledAttention(Attention[AttentionPlan]):
    """Tiles of queries over blocks of keys: see ``models/attention.py``."""

    def plan(
        self, positions: Tensor, groups: Sequence[AttentionGroup], window: int | None, device: torch.device = CPU
    ) -> AttentionPlan:
        """See ``Attention``."""
        heads = {"num_heads": self.shape.num_heads, "num_kv_heads": self.shape.num_kv_heads}
        return plan_attention(positions, groups, **heads, window=window, device=device)

    def attend(self, queries: Tensor, layer: KVLayer, plan: AttentionPlan) -> Tensor:
        """See ``Attention``."""
        return attend(queries, layer, plan, scale=self.shape.scale, softcap=self.shape.softcap)
