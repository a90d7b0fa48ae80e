"""What a layer asks of attention, whoever computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from forerun.models.base import AttentionGroup
from forerun.models.kv_layer import KVLayer

Plan = TypeVar("Plan")
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Heads and scores of a decoder's attention. ``softcap`` bounds scores by c·tanh(s/c) before the mask."""

    num_heads: int
    num_kv_heads: int
    scale: float
    softcap: float | None = None


class Attention(ABC, Generic[Plan]):
    """Attention over pool slots: a plan once a pass and window, then every layer of that window attends by it."""

    def __init__(self, shape: AttentionShape) -> None:
        self.shape = shape

    @abstractmethod
    def plan(
        self, positions: Tensor, groups: Sequence[AttentionGroup], window: int | None, device: torch.device = CPU
    ) -> Plan:
        """Lays out one pass for ``device``. ``positions`` is int64 [rows]; each row lies in exactly one group.

        A row at position p sees positions 0..p, with a window the last ``window`` of them (itself included). Positions
        and the groups' slots lie on the CPU: a plan never waits for a device.
        """

    @abstractmethod
    def attend(self, queries: Tensor, layer: KVLayer, plan: Plan) -> Tensor:
        """fp32 [rows, heads, value width] for ``queries`` [rows, heads, width] whose own keys are written already."""
