"""fp32 logits through a model's own output code: its scalings and soft caps, with the projection in fp32."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from forerun.models.adapter.architecture import child_name, refuse
from forerun.models.adapter.exact_functions import ExactFunctions
from forerun.models.tiled_linear import ROW_TILE, TiledLinear, pad_rows


class _StatesOnly(BaseModelOutputWithPast):  # type: ignore[misc]
    """A body's output of which only the states are known; whatever else the head passes on is ``None``."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


class _Body(nn.Module):
    """Stands in for the body of a model: gives back the states that are its input."""

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> _StatesOnly:
        return _StatesOnly(last_hidden_state=inputs_embeds)

    @property
    def decoder(self) -> _Body:
        """The stand-in again, for heads that reach through the body."""
        return self


class OutputHead:
    """What a causal LM does after its final norm, on any states.

    A shallow copy of the model runs its own forward with the body replaced by the states and the output projection by
    an fp32 one, so that no family's scaling has to be known here. Tiles have ``ROW_TILE`` rows. ``weight`` is that of
    the projection, [vocabulary, hidden].
    """

    def __init__(self, model: Any, body_name: str) -> None:
        projection = model.get_output_embeddings()
        name = child_name(model, projection)
        if name is None or model._modules[name] is not projection or not isinstance(projection, nn.Linear):
            raise refuse(type(model), "whose output projection is not a linear layer of the model itself")
        tail = copy.copy(model)
        tail.__dict__ = dict(model.__dict__)
        bias = None if projection.bias is None else projection.bias.detach().float()
        self.weight = projection.weight.detach().float()
        tail.__dict__["_modules"] = dict(model._modules) | {name: TiledLinear(self.weight, bias), body_name: _Body()}
        self._tail = tail
        self.vocab_size = int(projection.weight.shape[0])

    @torch.no_grad()
    def __call__(self, hidden: Tensor) -> Tensor:
        """fp32 logits [rows, vocabulary] of states [rows, hidden] after the final norm."""
        with ExactFunctions():
            tiles = [self._tail(inputs_embeds=tile[None]).logits[0] for tile in torch.split(pad_rows(hidden), ROW_TILE)]
        out = torch.cat(tiles) if tiles else hidden.new_zeros(0, self.vocab_size)
        return out[: hidden.shape[0]].float()
