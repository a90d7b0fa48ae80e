"""Runs the same rows at other places of a tile, beside other rows, and compares.

A model that mixes rows outside of attention, or takes positions from the row order, would be wrong without a word: it
is refused. One whose bits alone differ is driven, and its traits say that it is not bit-exact.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from forerun.models.adapter.adapter_target import AdapterTarget
from forerun.models.base import AttentionGroup, PassInput

NUM_ROWS = 7
NUM_NEIGHBOURS = 5

# Share of the logits' spread: rounding in bf16 stays far below it, a row that saw another row's state far above.
MIXED = 0.05


def check_neighbours(target: AdapterTarget) -> None:
    """Refuses a model whose rows depend on other rows; lowers ``is_bit_exact`` where bits do.

    A chain of ``NUM_ROWS`` runs alone in one pass, then cut in two passes with another owner's rows before it.
    """
    tokens = (torch.arange(NUM_NEIGHBOURS + NUM_ROWS) * 17 + 5) % target.traits.vocab_size
    theirs, mine = tokens[:NUM_NEIGHBOURS], tokens[NUM_NEIGHBOURS:]
    alone = target.logits_of(mine.tolist())
    store = target.new_store(len(tokens))
    first = target.forward(_pass(theirs[:-1], mine[:-2], 0, 0), store).logits
    second = target.forward(_pass(theirs[-1:], mine[-2:], NUM_NEIGHBOURS - 1, NUM_ROWS - 2), store).logits
    beside = torch.cat([first, second])
    if not torch.isfinite(alone).all():
        raise target.refusal("whose logits are not finite")
    change = (alone - beside).abs().amax(-1) / alone.std(-1).clamp_min(1e-12)
    if float(change.max()) > MIXED:
        raise target.refusal("whose rows depend on the rows beside them")
    if not torch.equal(alone, beside):
        target.traits = dataclasses.replace(target.traits, is_bit_exact=False)


def _pass(theirs: Tensor, mine: Tensor, their_start: int, my_start: int) -> PassInput:
    """Owner 1's rows behind those of owner 0, both continued at their positions; the logits wanted are owner 1's."""
    before, count = len(theirs), len(theirs) + len(mine)
    their_slots = torch.arange(their_start + before)
    my_slots = torch.arange(NUM_NEIGHBOURS, NUM_NEIGHBOURS + my_start + len(mine))
    return PassInput(
        torch.cat([theirs, mine]),
        torch.cat([torch.arange(their_start, their_start + before), torch.arange(my_start, my_start + len(mine))]),
        torch.cat([their_slots[their_start:], my_slots[my_start:]]),
        (0,) * before + (1,) * len(mine),
        (
            AttentionGroup(tuple(range(before)), their_slots),
            AttentionGroup(tuple(range(before, count)), my_slots),
        ),
        tuple(range(before, count)),
        {0: before, 1: len(mine)},
    )
