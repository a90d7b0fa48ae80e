"""One sequence read through a target, slice by slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from forerun.models.base import AttentionGroup, PassInput, Target
from forerun.models.decoder import Decoder
from forerun.models.recording.pass_shape import PassShape
from forerun.models.recording.recorder import Recorder
from forerun.models.recording.static_pass import StaticPass, taken_out


def slices(tokens: Sequence[int], num_rows: int) -> Iterator[PassInput]:
    """``num_rows`` tokens a pass, position p in slot p, all logits wanted."""
    slots = torch.arange(len(tokens))
    for start in range(0, len(tokens), num_rows):
        at = slots[start : start + num_rows]
        rows = tuple(range(len(at)))
        group = AttentionGroup(rows, slots[: start + len(at)])
        yield PassInput(torch.tensor(tokens)[at], at, at, (0,) * len(at), (group,), rows, {0: len(at)})


def logits_of(target: Target, tokens: Sequence[int], num_rows: int) -> Tensor:
    """fp32 logits [tokens, vocabulary] on the CPU."""
    store = target.new_store(len(tokens))
    return torch.cat([target.forward(batch, store).logits.cpu() for batch in slices(tokens, num_rows)])


@torch.no_grad()
def recorded_logits(decoder: Decoder, recorder: Recorder, tokens: Sequence[int], num_rows: int) -> Tensor:
    """The same by one recording that is played for every slice."""
    store = decoder.new_store(len(tokens) + 1)
    batches = list(slices(tokens, num_rows))
    shape = PassShape.of(batches[-1])
    assert shape is not None
    static = StaticPass(decoder, store, PassShape(1, max(num_rows, shape.num_rows), shape.num_keys), frozenset())
    static.fill(batches[0])
    play = recorder.record(static.run)
    parts = []
    for batch in batches:
        static.fill(batch)
        parts.append(taken_out(play(), batch).logits.cpu())
    return torch.cat(parts)
