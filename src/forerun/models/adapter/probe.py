"""Runs a model once on a short chain and records its attention calls, so that nothing has to be known per family.

What is learned: how many calls, their shapes, which of them read an earlier layer's keys (shared KV), and which mask
the library would have built for each. A mask that is neither causal nor a causal window is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from forerun.models.adapter.architecture import refuse
from forerun.models.adapter.attention_function import check_arguments, sinks_of
from forerun.models.adapter.layer_plan import LayerPlan
from forerun.models.tiled_linear import ROW_TILE

NAME = "forerun_probe"

MaskFunction = Callable[[Any, Any, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """One recorded call: the layer's module, its keys and values [1, kv heads, rows, width], mask and window."""

    module: nn.Module
    keys: Tensor
    values: Tensor
    mask: Tensor | None
    window: int | None
    is_causal: bool | None

    def has_same_keys(self, other: AttentionCall) -> bool:
        """Whether both read the very same keys and values."""
        return self.keys is other.keys and self.values is other.values


@dataclass(slots=True)
class _Recorder:
    calls: list[AttentionCall] = field(default_factory=list)
    masks: list[tuple[Tensor, MaskFunction]] = field(default_factory=list)


_RECORDER: ContextVar[_Recorder] = ContextVar("forerun_adapter_probe")


def _record_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    **arguments: Any,
) -> tuple[Tensor, None]:
    sinks_of(arguments)
    check_arguments(module, arguments)
    _RECORDER.get().calls.append(AttentionCall(module, key, value, attention_mask, sliding_window, is_causal))
    shape = (query.shape[0], query.shape[2], query.shape[1], value.shape[-1])
    return torch.zeros(shape, dtype=query.dtype, device=query.device), None


def _record_mask(mask_function: MaskFunction, **arguments: Any) -> Tensor:
    arguments["allow_is_causal_skip"] = False
    arguments["allow_is_bidirectional_skip"] = False
    mask: Tensor = sdpa_mask(mask_function=mask_function, **arguments)
    _RECORDER.get().masks.append((mask, mask_function))
    return mask


AttentionInterface.register(NAME, _record_attention)
AttentionMaskInterface.register(NAME, _record_mask)


@contextmanager
def _recording(model: Any) -> Iterator[_Recorder]:
    recorder = _Recorder()
    token = _RECORDER.set(recorder)
    model.set_attn_implementation(NAME)
    try:
        yield recorder
    finally:
        _RECORDER.reset(token)


def is_causal_within(mask_function: MaskFunction, window: int | None, max_context: int) -> bool:
    """Whether a mask shows exactly the positions 0..p, or the last ``window`` of them, to a row at position p.

    Looked at in rows near the start, around multiples of the window and at the end of the context; there at the edges.
    """
    reach = window or 1
    rows = sorted({0, 1, 2, 17, reach - 1, reach, reach + 1, 2 * reach + 3, 5 * reach + 1, 4097, max_context - 1})
    for row in (row for row in rows if 0 <= row < max_context):
        oldest = 0 if window is None else max(0, row - window + 1)
        keys = {0, row // 2, row - reach - 1, row - reach, row - reach + 1, oldest - 1, oldest, row - 1, row, row + 1}
        for key in (key for key in keys if key >= 0):
            try:
                shown = mask_function(torch.tensor(0), torch.tensor(0), torch.tensor(row), torch.tensor(key))
            except IndexError:  # a table of the probe's own rows, not a rule about positions
                return False
            if bool(shown) != (oldest <= key <= row):
                return False
    return True


def _is_same_storage(mask: Tensor, other: Tensor) -> bool:
    """Whether two masks are one tensor, a whole view included."""
    return mask.data_ptr() == other.data_ptr() and mask.shape == other.shape


def _window_of(
    model_class: type, call: AttentionCall, recorder: _Recorder, config: Any, max_context: int
) -> int | None:
    """The window of a call, checked against the mask that the library would have used."""
    name = type(call.module).__name__
    if call.mask is None:
        causal = getattr(call.module, "is_causal", False) if call.is_causal is None else call.is_causal
        if not causal:
            raise refuse(model_class, f"whose {name} is not causal")
        return call.window
    function = next((known for mask, known in recorder.masks if _is_same_storage(mask, call.mask)), None)
    if function is None:
        raise refuse(model_class, f"whose {name} changes its attention mask")
    for window in dict.fromkeys((call.window, getattr(config, "sliding_window", None), None)):
        if is_causal_within(function, window, max_context):
            return window
    raise refuse(model_class, f"whose {name} uses a mask that is neither causal nor a causal window")


def probe(
    model: Any, run_body: Callable[[Tensor, Tensor], Any], config: Any, max_context: int
) -> tuple[LayerPlan, ...]:
    """One plan per attention call of the model, in call order. ``run_body`` takes tokens and positions, [1, rows]."""
    device = next(model.parameters()).device
    positions = torch.arange(min(ROW_TILE, max_context), device=device)[None]
    with _recording(model) as recorder, torch.no_grad():
        run_body(torch.zeros_like(positions), positions)
    plans: list[LayerPlan] = []
    for number, call in enumerate(recorder.calls):
        shared = next((i for i, earlier in enumerate(recorder.calls[:number]) if earlier.has_same_keys(call)), None)
        pool = sum(plan.writes for plan in plans) if shared is None else plans[shared].pool
        window = _window_of(type(model), call, recorder, config, max_context)
        kv_heads, key_width, value_width = call.keys.shape[1], call.keys.shape[-1], call.values.shape[-1]
        plans.append(LayerPlan(pool, shared is None, kv_heads, key_width, value_width, window))
    return tuple(plans)
