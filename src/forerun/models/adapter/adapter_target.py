"""A Hugging Face causal LM as a target: its own code, on tiles of one fixed shape, over the pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from forerun.errors import ForerunError
from forerun.models.adapter.architecture import child_name, context_length, decoder_blocks, has_untiled_experts, refuse
from forerun.models.adapter.attention_function import NAME as ATTENTION
from forerun.models.adapter.exact_functions import ExactFunctions
from forerun.models.adapter.output_head import OutputHead
from forerun.models.adapter.probe import probe
from forerun.models.adapter.recurrent_pass import RecurrentPass
from forerun.models.adapter.state_taps import StateTaps
from forerun.models.adapter.stepped_mixers import find_mixers, step_by_token
from forerun.models.adapter.tile_pass import TilePass
from forerun.models.adapter.tiled_experts import NAME as EXPERTS
from forerun.models.base import AttentionGroup, PassInput, PassOutput, Target, TargetTraits
from forerun.models.kv_store import KVStore
from forerun.models.tiled_linear import ROW_TILE
from forerun.types import Tap


class AdapterTarget(Target):
    """Drives one adapted model; ``adapt`` builds it and fills in whether it is bit-exact.

    Every forward of the model sees ``ROW_TILE`` rows, whatever the pass holds: all of its operations keep one shape, so
    a row's bits can't depend on how many rows were beside it. Tiles run in order, and since parents precede children
    and committed rows precede drafts, a row's keys are written before anyone reads them.
    """

    def __init__(self, model: Any, name: str, eos_token_ids: tuple[int, ...]) -> None:
        self._model = model
        self._config = model.config.get_text_config(decoder=True)
        self._device = next(model.parameters()).device
        max_context = context_length(self._config)
        blocks = decoder_blocks(model, self._config)
        mixers = find_mixers(blocks)
        body_name = child_name(model, blocks)
        assert body_name is not None, "the blocks are the model's own"
        self._body = getattr(model, body_name)
        self._head = OutputHead(model, body_name)
        self._taps = StateTaps(model, blocks)
        if model._can_set_experts_implementation():
            model.set_experts_implementation(EXPERTS)
        self._layers = probe(model, self._run_body, self._config, max_context)
        model.set_attn_implementation(ATTENTION)
        for mixer in mixers:
            step_by_token(mixer)
        self._mixer_layers = tuple(mixer.layer_idx for mixer in mixers)
        self._dtype = next(model.parameters()).dtype
        self.traits = TargetTraits(
            name=name,
            family=str(self._config.model_type),
            num_layers=len(blocks),
            hidden_size=int(self._config.hidden_size),
            vocab_size=self._head.vocab_size,
            max_context=max_context,
            eos_token_ids=eos_token_ids,
            has_recurrent_state=bool(mixers),
            is_bit_exact=not has_untiled_experts(blocks),
            dtype=str(self._dtype).removeprefix("torch."),
            device=str(self._device),
        )

    def refusal(self, found: str) -> ForerunError:
        """The error for this model's architecture."""
        return refuse(type(self._model), found)

    @property
    def weight_bytes(self) -> int:
        """See ``Target``: the model's parameters, and its output projection in fp32."""
        weights = {weight.data_ptr(): weight.nbytes for weight in self._model.parameters()}
        return sum((weights | {self._head.weight.data_ptr(): self._head.weight.nbytes}).values())

    def new_store(self, num_slots: int, dtype: torch.dtype | None = None) -> KVStore:
        """Zeroed storage; layers that share keys have one pool layer between them."""
        pools = [layer for layer in self._layers if layer.writes]
        shapes = [(layer.num_kv_heads, layer.key_width, layer.value_width) for layer in pools]
        return KVStore.zeros(shapes, num_slots, dtype or self._dtype, self._device)

    @torch.no_grad()
    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        """One pass, tile by tile. Positions outside the context and, with recurrent layers, trees are refused."""
        furthest = int(batch.positions.max()) if len(batch.positions) else 0
        if furthest >= self.traits.max_context:
            raise ForerunError(
                f"positions below {self.traits.max_context}, the context of {self.traits.name}",
                f"position {furthest}",
                "shorten the prompt or the output",
            )
        recurrent = RecurrentPass(self._config, self._mixer_layers, batch, store)
        hidden: list[Tensor] = []
        tapped: dict[Tap, list[Tensor]] = {tap: [] for tap in taps}
        for first in range(0, len(batch.owners), ROW_TILE):
            tile = self._tile(batch, first, store, taps, recurrent)
            tokens = batch.tokens[first : first + ROW_TILE].to(self._device)
            with tile.in_flight(), ExactFunctions():
                out = self._run_body(_padded(tokens)[None], _padded(tile.positions)[None])
            assert tile.num_calls == len(self._layers), "a model makes the same attention calls in every pass"
            hidden.append(out[0, : tile.num_rows])
            for tap, rows in self._taps.finish(tile, out).items():
                tapped[tap].append(rows)
        recurrent.keep(store)
        wanted = torch.tensor(batch.logit_rows, dtype=torch.int64, device=self._device)
        states = torch.cat(hidden) if hidden else torch.zeros(0, self.traits.hidden_size, device=self._device)
        return PassOutput(self._head(states[wanted]), {tap: torch.cat(parts) for tap, parts in tapped.items()})

    @torch.no_grad()
    def embed(self, tokens: Tensor) -> Tensor:
        """Input embeddings [n, hidden], scaled as the model scales them; refused where they depend on the position."""
        if not len(tokens):
            return torch.zeros(0, self.traits.hidden_size, dtype=self._dtype, device=self._device)
        return self._taps.embed(tokens.to(self._device), self._run_body)

    def head(self, hidden: Tensor) -> Tensor:
        """fp32 logits [n, vocabulary] of states after the final norm."""
        return self._head(hidden.to(self._device))

    def _run_body(self, tokens: Tensor, positions: Tensor) -> Tensor:
        out = self._body(input_ids=tokens, position_ids=positions, use_cache=False)
        states = out.last_hidden_state
        assert isinstance(states, Tensor)
        return states

    def _tile(
        self, batch: PassInput, first: int, store: KVStore, taps: frozenset[Tap], recurrent: RecurrentPass
    ) -> TilePass:
        rows = slice(first, first + ROW_TILE)
        return TilePass(
            batch.positions[rows].to(self._device),
            batch.slots[rows].to(self._device),
            batch.owners[rows],
            tuple(_groups_within(batch.groups, first)),
            self._layers,
            store,
            taps,
            recurrent,
        )


def _padded(values: Tensor) -> Tensor:
    """Zeros added up to a whole tile."""
    return torch.nn.functional.pad(values, (0, ROW_TILE - len(values)))


def _groups_within(groups: tuple[AttentionGroup, ...], first: int) -> Iterator[AttentionGroup]:
    """The groups cut to the tile that begins at row ``first``, rows counted from there."""
    for group in groups:
        rows = tuple(row - first for row in group.rows if first <= row < first + ROW_TILE)
        if rows:
            yield AttentionGroup(rows, group.slots)
