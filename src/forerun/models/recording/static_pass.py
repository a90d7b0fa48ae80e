"""A pass whose inputs and outputs keep their places in memory, so that its operations can be played again."""

from __future__ import annotations

import torch

from forerun.models.arithmetic.sdpa_attention import SdpaAttention, SdpaBatch, SdpaPlan
from forerun.models.base import PassInput, PassOutput
from forerun.models.decoder import Decoder
from forerun.models.device_pass import DevicePass, moved_together
from forerun.models.kv_store import KVStore
from forerun.models.recording.pass_shape import PassShape
from forerun.types import Tap


class StaticPass:
    """One shape over one store. ``fill`` writes a batch into the inputs by one copy, ``run`` computes from there.

    Group g has the places g * num_rows and following. Spare places hold token 0 at position 0 and write into the
    store's last slot, which belongs to nobody; keys that a group hasn't got are read from there too, and masked. No
    other row sees either.
    """

    def __init__(self, decoder: Decoder, store: KVStore, shape: PassShape, taps: frozenset[Tap]) -> None:
        assert isinstance(decoder.attention, SdpaAttention)
        self.shape = shape
        self._decoder = decoder
        self._attention = decoder.attention
        self._store = store
        self._taps = taps
        self._spare_slot = store.num_slots - 1
        places = shape.num_places
        self._sizes = [places] * 5 + [shape.num_groups * shape.num_keys]
        self._inputs = torch.zeros(sum(self._sizes), dtype=torch.int64, device=decoder.device)
        parts = torch.split(self._inputs, self._sizes)
        self._tokens, self._positions, self._slots, self._logit_rows, self._rows, table = parts
        self._table = table.view(shape.num_groups, shape.num_keys)
        self._places = torch.arange(places, device=decoder.device)
        self._key_positions = torch.arange(shape.num_keys, device=decoder.device)[None]

    def fill(self, batch: PassInput) -> None:
        """Puts a batch of this shape, or a smaller one, into the inputs."""
        inputs = torch.zeros(sum(self._sizes), dtype=torch.int64)
        tokens, positions, slots, logit_rows, rows, flat_table = torch.split(inputs, self._sizes)
        table = flat_table.view(self._table.shape)
        slots.fill_(self._spare_slot)
        table.fill_(self._spare_slot)
        place_of = rows[: len(batch.owners)]
        for index, group in enumerate(batch.groups):
            at = list(group.rows)
            place_of[at] = index * self.shape.num_rows + torch.arange(len(at))
            seen = group.slots[: int(batch.positions[at].max()) + 1]
            table[index, : len(seen)] = seen
        tokens[place_of], positions[place_of], slots[place_of] = batch.tokens, batch.positions, batch.slots
        logit_rows[: len(batch.logit_rows)] = place_of[list(batch.logit_rows)]
        (moved,) = moved_together([inputs], self._inputs.device)
        self._inputs.copy_(moved)

    def run(self) -> PassOutput:
        """Logits of the rows that want them and states of all rows, in the batch's order; behind them spare ones."""
        windows = {layer.window for layer in self._decoder.config.layers}
        laid_out = DevicePass(
            self._tokens,
            self._positions,
            self._slots,
            self._logit_rows,
            {window: self._plan(window) for window in windows},
        )
        output = self._decoder.run(laid_out, self._store, self._taps)
        return PassOutput(output.logits, {tap: states[self._rows] for tap, states in output.taps.items()})

    def _plan(self, window: int | None) -> SdpaPlan:
        rows = self._places.view(self.shape.num_groups, self.shape.num_rows)
        at = self._positions.view(rows.shape)
        mask = self._attention.mask(at, self._key_positions.expand(len(rows), -1), window)
        return SdpaPlan((SdpaBatch(rows, self._table, mask),), self._places)


def taken_out(output: PassOutput, batch: PassInput) -> PassOutput:
    """A copy of what belongs to the batch: the next run overwrites the output."""
    taps = {tap: states[: len(batch.owners)].clone() for tap, states in output.taps.items()}
    return PassOutput(output.logits[: len(batch.logit_rows)].clone(), taps)
