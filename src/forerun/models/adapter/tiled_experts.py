"""Mixture of experts with row counts that routing does not change.

The library evaluates an expert on the rows routed to it; how many those are depends on the neighbours, and with it the
bits. Here every expert that some row needs sees the whole tile, and each row keeps the results it asked for, added in
the order of expert ids as the library's eager loop does. A tile is small, so the weights' traffic is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

NAME = "forerun"


def tiled_experts(experts: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Sum of each row's experts: [rows, hidden], ids and weights [rows, k] -> [rows, hidden].

    Biases, layouts and activations are the module's own: its eager forward is called with one expert for all rows.
    """
    eager = type(experts).forward.__wrapped__
    total = torch.zeros_like(hidden_states)
    for expert in torch.unique(top_k_index).tolist():
        if expert >= experts.num_experts:  # the library's mark for "no expert"
            continue
        chosen = top_k_index == expert
        is_routed = chosen.any(-1, keepdim=True)
        weights = top_k_weights.masked_fill(~chosen, 0).sum(-1, keepdim=True)
        result = eager(experts, hidden_states, torch.full_like(top_k_index[:, :1], expert), weights)
        total = torch.where(is_routed, total + result, total)
    return total


ALL_EXPERTS_FUNCTIONS.register(NAME, tiled_experts)
