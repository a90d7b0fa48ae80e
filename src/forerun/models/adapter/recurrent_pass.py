"""Recurrent states of the owners of one pass: stepped token by token, kept at the border of the committed rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from forerun.errors import ForerunError
from forerun.models.base import PassInput
from forerun.models.kv_store import KVStore, RecurrentState

# A mixer's forward on one token: hidden [1, 1, width] and the owner's cache in, [1, 1, width] out.
StepFunction = Callable[[Tensor, DynamicCache], Tensor]


def _snapshot(layer: Any) -> tuple[Tensor, ...]:
    """Copies of a cache layer's convolution and recurrent states; an absent one is an empty tensor."""
    states = (state for pair in zip(layer.conv_states.values(), layer.recurrent_states.values()) for state in pair)
    return tuple(torch.empty(0) if state is None else state.clone() for state in states)


def _restore(layer: Any, tensors: tuple[Tensor, ...]) -> None:
    for index, (conv, recurrent) in enumerate(zip(tensors[::2], tensors[1::2], strict=True)):
        if conv.numel():
            layer.lazy_initialization(conv_states=conv, state_idx=index)
            layer.conv_states[index].copy_(conv)
        if recurrent.numel():
            layer.lazy_initialization(recurrent_states=recurrent, state_idx=index)
            layer.recurrent_states[index].copy_(recurrent)
        layer.has_previous_state[index] = True


@dataclass(slots=True)
class _Run:
    """One owner: its working cache, rows still to come before the border per mixer, and the states found there."""

    cache: DynamicCache
    num_tokens: int
    rows_before_border: list[int]
    border: list[tuple[Tensor, ...] | None]


class RecurrentPass:
    """Runs the mixers of one pass. Drafts are stepped on the working cache after the border was copied out of it.

    ``layers`` are the decoder layers that hold a mixer, in order; none for a model without recurrent layers.
    """

    def __init__(self, config: Any, layers: tuple[int, ...], batch: PassInput, store: KVStore) -> None:
        self._layers = layers
        self._runs: dict[int, _Run] = {}
        if not layers:
            return
        positions = batch.positions.tolist()
        rows_of: dict[int, list[int]] = {}
        for row, owner in enumerate(batch.owners):
            rows_of.setdefault(owner, []).append(positions[row])
        for owner, at in rows_of.items():
            self._runs[owner] = self._begin(config, at, batch.num_committed[owner], store.states.get(owner))

    def _begin(self, config: Any, at: list[int], num_committed: int, state: RecurrentState | None) -> _Run:
        if at != list(range(at[0], at[0] + len(at))):
            raise ForerunError(
                "chains only for a target with recurrent layers", "a tree of drafts", "choose a method without trees"
            )
        known = 0 if state is None or at[0] == 0 else state.num_tokens
        assert at[0] == known, f"rows start at position {at[0]}, the recurrent state stands at {known}"
        cache = DynamicCache(config=config)
        if state is not None and known:
            width = len(state.tensors) // len(self._layers)
            for number, layer in enumerate(self._layers):
                _restore(cache.layers[layer], state.tensors[number * width : (number + 1) * width])
        mixers = len(self._layers)
        return _Run(cache, at[0] + num_committed, [num_committed] * mixers, [None] * mixers)

    def step(self, layer: int, hidden: Tensor, owners: tuple[int, ...], forward: StepFunction) -> Tensor:
        """One mixer over a tile, [1, rows, width] -> the same; rows behind ``owners`` are padding and stay zero."""
        mixer = self._layers.index(layer)
        out = torch.zeros_like(hidden)
        for row, owner in enumerate(owners):
            run = self._runs[owner]
            out[:, row : row + 1] = forward(hidden[:, row : row + 1], run.cache)
            run.rows_before_border[mixer] -= 1
            if run.rows_before_border[mixer] == 0:
                run.border[mixer] = _snapshot(run.cache.layers[layer])
        return out

    def keep(self, store: KVStore) -> None:
        """Stores each owner's state after its committed rows; owners without any keep what they had."""
        for owner, run in self._runs.items():
            reached = [state for state in run.border if state is not None]
            if reached:
                assert len(reached) == len(self._layers), "every mixer sees every row"
                store.states[owner] = RecurrentState(run.num_tokens, tuple(t for state in reached for t in state))
