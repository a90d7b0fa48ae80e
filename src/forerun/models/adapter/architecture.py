"""Which Hugging Face models the adapter takes; everything else is refused by name before any weight is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from forerun.errors import ForerunError

# Hybrids whose classes leave `_supports_attention_backend` unset although their attention goes through the library's
# attention interface (read in transformers 5.24): their recurrent mixers are stepped by ``stepped_mixers``.
HYBRID_MODEL_TYPES = frozenset({"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid"})

# Context for models that state none (no learned positions and no rotary table to overrun).
UNSTATED_CONTEXT = 1 << 20

SUPPORTED = (
    "a decoder-only Hugging Face causal LM whose class declares _supports_attention_backend, or one of "
    + ", ".join(sorted(HYBRID_MODEL_TYPES))
)


def refuse(model_class: type, found: str, remedy: str = "choose another target") -> ForerunError:
    """The error for an architecture that can't be driven: it names the class and what is supported."""
    return ForerunError(SUPPORTED, f"{model_class.__name__}, {found}", remedy)


def check_class(model_class: type, config: Any) -> None:
    """Refuses classes that never use the attention interface, and encoder-decoders."""
    if getattr(config, "is_encoder_decoder", False):
        raise refuse(model_class, "an encoder-decoder")
    model_type = config.get_text_config(decoder=True).model_type
    if not getattr(model_class, "_supports_attention_backend", False) and model_type not in HYBRID_MODEL_TYPES:
        raise refuse(model_class, "which does not declare the attention interface")


def rope_settings(config: Any) -> Iterator[Mapping[str, Any]]:
    """Every rotary setting of a text config: one, or one per kind of layer."""
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, Mapping)]
    yield from nested or [parameters]


def context_length(config: Any) -> int:
    """Longest sequence at which every row's rotary angles depend on its own position alone.

    Two kinds of scaling change the frequencies of *all* rows once the longest row of a batch passes a length, so the
    context ends there and below it they are plain tables: dynamic NTK at ``max_position_embeddings``, which ends every
    context, and longrope at the original length.
    """
    limit = int(getattr(config, "max_position_embeddings", None) or UNSTATED_CONTEXT)
    for setting in rope_settings(config):
        if setting.get("rope_type") == "longrope":
            limit = min(limit, int(setting["original_max_position_embeddings"]))
    return limit


def decoder_blocks(model: Any, config: Any) -> nn.ModuleList:
    """The list of decoder blocks: the decoder's outermost module list with one entry per layer of the text config."""
    for module in model.get_decoder().modules():
        if isinstance(module, nn.ModuleList) and len(module) == config.num_hidden_layers:
            return module
    raise refuse(type(model), f"in which no list of {config.num_hidden_layers} decoder blocks was found")


def child_name(model: nn.Module, wanted: nn.Module) -> str | None:
    """The name of the direct child that is ``wanted`` or contains it."""
    return next((name for name, child in model.named_children() if any(m is wanted for m in child.modules())), None)


def has_untiled_experts(blocks: nn.ModuleList) -> bool:
    """Whether experts are evaluated outside the library's experts interface, with row counts that routing decides.

    Such experts are either a module list inside a block or stacked weights [experts, out, in] of a module that the
    interface does not dispatch (``use_experts_implementation`` marks those it does with ``_apply_gate``).
    """
    for block in blocks:
        for module in block.modules():
            if isinstance(module, nn.ModuleList):
                return True
            is_stacked = any(parameter.ndim == 3 for parameter in module.parameters(recurse=False))
            if is_stacked and not isinstance(module, nn.Conv1d) and not hasattr(module, "_apply_gate"):
                return True
    return False
