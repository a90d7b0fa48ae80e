"""The lean decoder on the native kernels: one call a pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from forerun.models.base import AttentionGroup, PassInput, PassOutput, Target, TargetTraits
from forerun.models.decoder import Decoder
from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.exact_ops import softcap
from forerun.models.kv_store import KVStore
from forerun.models.native.kernels import Kernels
from forerun.models.native.native_weights import NativeLayer, NativeWeights, take_weights
from forerun.models.native.structs import ACTIVATIONS, KINDS, DecoderStruct, LayerStruct, PassStruct, pointers
from forerun.models.native.tiled_store import TiledStore
from forerun.types import Tap, TapKind


class NativeDecoder(Target):
    """A decoder in packed panels, of one number type or of a file's blocks.

    Activations between linears, sums and logits are fp32. Rows have the same bits whatever lies beside them, at any
    thread count.
    """

    def __init__(
        self,
        config: DecoderConfig,
        traits: TargetTraits,
        weights: NativeWeights,
        pool_dtype: torch.dtype,
        kernels: Kernels,
    ) -> None:
        """``pool_dtype`` is the number type of keys and values that aren't asked for in another."""
        self.config = config
        self.traits = replace(traits, kernels=kernels.path)
        self.dtype = pool_dtype
        self._kernels = kernels
        self._weights = weights
        self._rotaries = list(dict.fromkeys(layer.rotary for layer in config.layers))
        self._layers = (LayerStruct * config.num_layers)(*map(self._layer, weights.layers, config.layers))
        self._struct = self._decoder_struct()

    def _layer(self, weights: NativeLayer, layer: LayerConfig) -> LayerStruct:
        return LayerStruct(
            qkv=weights.qkv.struct,
            output=weights.output.struct,
            gate_up=weights.gate_up.struct,
            down=weights.down.struct,
            **{name: weight.data_ptr() for name, weight in weights.norms.items()},
            window=layer.window or 0,
            rotary=self._rotaries.index(layer.rotary),
        )

    def _decoder_struct(self) -> DecoderStruct:
        config = self.config
        return DecoderStruct(
            config.hidden_size,
            config.intermediate_size,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            config.num_layers,
            ACTIVATIONS[config.activation],
            config.norm_eps,
            config.attention_scale,
            config.attention_softcap or 0.0,
            config.final_softcap or 0.0,
            self._layers,
            self._weights.final_norm.data_ptr(),
            self._weights.head.struct,
        )

    @property
    def weight_bytes(self) -> int:
        """See ``Target``."""
        return self._weights.weight_bytes

    def new_store(self, num_slots: int, dtype: torch.dtype | None = None) -> TiledStore:
        """See ``Target``: in tiles, as attention reads them."""
        config = self.config
        return TiledStore.of(config.num_layers, config.num_kv_heads, config.head_dim, num_slots, dtype or self.dtype)

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        """See ``Target``."""
        x = self.embed(batch.tokens)
        tapped = {tap: torch.empty_like(x) for tap in taps if tap.kind is not TapKind.BEFORE_FINAL_NORM}
        by_layer = [tapped.get(Tap.of_block(index)) for index in range(self.config.num_layers)]
        if strange := [tap.block for tap in taps if tap.kind is TapKind.BLOCK and tap.block >= len(by_layer)]:
            raise ValueError(f"block {strange[0]} of {self.traits.name}, which has {len(by_layer)}")
        normed = next((out for tap, out in tapped.items() if tap.kind is TapKind.AFTER_FINAL_NORM), None)
        logit_rows = torch.tensor(batch.logit_rows, dtype=torch.int64)
        # From numpy for numpy: the sampler reads them there, and each crossing costs what a small layer does.
        host = np.empty((len(logit_rows), self.config.vocab_size), np.float32)
        logits = torch.from_numpy(host)
        cosines, sines = zip(*(rotary.angles(batch.positions) for rotary in self._rotaries), strict=True)
        row_start, rows, slot_start, slots = _flat(batch.groups)
        self._kernels.forward(
            self._struct,
            PassStruct(
                num_rows=len(x),
                num_groups=len(batch.groups),
                num_logit_rows=len(logit_rows),
                pool_kind=KINDS[store.dtype],
                num_slots=store.num_slots,
                x=x.data_ptr(),
                positions=batch.positions.data_ptr(),
                slots=batch.slots.data_ptr(),
                group_row_start=row_start.data_ptr(),
                group_rows=rows.data_ptr(),
                group_slot_start=slot_start.data_ptr(),
                group_slots=slots.data_ptr(),
                cosines=pointers(list(cosines)),
                sines=pointers(list(sines)),
                keys=pointers(store.keys),
                values=pointers(store.values),
                key_scales=pointers(store.key_scales),
                value_scales=pointers(store.value_scales),
                taps=pointers(by_layer),
                normed=None if normed is None else normed.data_ptr(),
                logit_rows=logit_rows.data_ptr(),
                logits=logits.data_ptr(),
            ),
        )
        return PassOutput(logits, tapped | {tap: x for tap in taps - tapped.keys()}, host)

    def run_linears_alone(self, num_rows: int) -> None:
        """The floor under a pass of ``num_rows`` rows: its linears, and nothing between them. For measuring."""
        self._kernels.run_linears_alone(self._struct, num_rows)

    def embed(self, tokens: Tensor) -> Tensor:
        """See ``Target``; scaled where the family scales."""
        rows = self._weights.embedding_rows(tokens)
        scale = self._weights.embedding_scale
        return rows if scale == 1.0 else rows * scale

    def head(self, hidden: Tensor) -> Tensor:
        """See ``Target``."""
        logits = self._weights.head(hidden)
        return logits if self.config.final_softcap is None else softcap(logits, self.config.final_softcap)


def _flat(groups: Sequence[AttentionGroup]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where each group's rows begin, all rows, where its slots begin, all slots."""
    rows = torch.tensor([row for group in groups for row in group.rows], dtype=torch.int64)
    row_start = torch.tensor([0, *accumulate(len(group.rows) for group in groups)])
    slots = [group.slots for group in groups]
    slot_start = torch.tensor([0, *accumulate(len(table) for table in slots)])
    return row_start, rows, slot_start, slots[0] if len(slots) == 1 else torch.cat(slots)


def on_best_kernels(decoder: Decoder, kernels: Kernels | None) -> Target:
    """The filled decoder as it runs best here: native on a CPU with kernels, else through torch, packed.

    One of inexact arithmetic stays with torch, whose own kernels were asked for.
    """
    if kernels is not None and decoder.traits.is_bit_exact and decoder.dtype in KINDS:
        weights = take_weights(decoder, kernels)
        return NativeDecoder(decoder.config, decoder.traits, weights, decoder.dtype, kernels)
    decoder.pack()
    return decoder
