"""One tile of rows on its way through a model's own code, reachable from the functions that the library calls back.

The tile in flight lives in a context variable: each thread (and each nested pass) sees its own, so two engines can
drive models at once without mixing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from torch import Tensor

from forerun.models.adapter.layer_plan import LayerPlan
from forerun.models.adapter.recurrent_pass import RecurrentPass
from forerun.models.attention_plan import AttentionPlan, plan_attention
from forerun.models.base import AttentionGroup
from forerun.models.kv_store import KVStore
from forerun.types import Tap

_IN_FLIGHT: ContextVar[TilePass] = ContextVar("forerun_adapter_tile")


@dataclass(slots=True)
class TilePass:
    """Rows ``0..num_rows - 1`` of a tile are real, the rest is padding.

    ``positions`` and ``slots`` are int64 [num_rows]; ``groups`` index the tile's rows; ``layers`` has one entry per
    attention call in the order in which the model makes them. ``states`` collects the block outputs that are wanted,
    ``norms`` input and output of the norms beside the blocks.
    """

    positions: Tensor
    slots: Tensor
    owners: tuple[int, ...]
    groups: tuple[AttentionGroup, ...]
    layers: tuple[LayerPlan, ...]
    store: KVStore
    taps: frozenset[Tap]
    recurrent: RecurrentPass
    num_calls: int = 0
    states: dict[Tap, Tensor] = field(default_factory=dict)
    norms: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    _plans: dict[tuple[int, int, int | None], AttentionPlan] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """Real rows."""
        return len(self.owners)

    def next_layer(self) -> LayerPlan:
        """The plan of the attention call being made now."""
        layer = self.layers[self.num_calls]
        self.num_calls += 1
        return layer

    def attention_plan(self, num_heads: int, num_kv_heads: int, window: int | None) -> AttentionPlan:
        """The layout for one shape of layer, made once a tile."""
        key = (num_heads, num_kv_heads, window)
        if key not in self._plans:
            self._plans[key] = plan_attention(
                self.positions, self.groups, num_heads=num_heads, num_kv_heads=num_kv_heads, window=window
            )
        return self._plans[key]

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """While open, the library's callbacks of this thread find this tile."""
        token = _IN_FLIGHT.set(self)
        try:
            yield
        finally:
            _IN_FLIGHT.reset(token)


def tile_in_flight() -> TilePass | None:
    """The tile that this thread is running, if any."""
    return _IN_FLIGHT.get(None)
