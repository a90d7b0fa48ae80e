"""Every causal LM class of the installed library that a tiny config can build: right, or refused by name."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from forerun.errors import ForerunError
from forerun.models.adapter import adapt
from forerun.models.adapter.adapter_target import AdapterTarget
from support.adapted_models import BASE, some_tokens

# Values that many families name alike; a family ignores what it does not know.
GENERIC: dict[str, Any] = BASE | {
    "num_hidden_layers": 4,
    "head_dim": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "sliding_window": 8,
    "n_group": 1,
    "topk_group": 1,
}
MAX_PARAMETERS = 30_000_000
TOKENS = some_tokens(41)


def _tiny(model_type: str, model_class: type) -> tuple[Any, Tensor] | None:
    """A tiny random model and its own logits of ``TOKENS``.

    ``None`` where the generic values don't make one that runs in the library itself.
    """
    try:
        config = hf.AutoConfig.for_model(model_type, **GENERIC).get_text_config(decoder=True)
        with torch.device("meta"):
            size = sum(math.prod(parameter.shape) for parameter in model_class(config).parameters())
        if size > MAX_PARAMETERS:
            return None
        torch.manual_seed(0)
        model = model_class(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.normal_(0, 0.08)
            return model, model(torch.tensor([TOKENS])).logits[0].float()
    except Exception:
        return None


def _adapted_or_refused(model: Any) -> tuple[AdapterTarget | None, str]:
    try:
        return adapt(model), ""
    except ForerunError as refusal:
        return None, str(refusal)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
def test_right_or_refused_by_name(model_type: str) -> None:
    model_class = getattr(hf, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type])
    built = _tiny(model_type, model_class)
    if built is None:
        pytest.skip("the generic tiny config builds no model of this class")
    model, expected = built
    target, refusal = _adapted_or_refused(model)
    if target is None:
        stem = model_class.__name__.split("For")[0].removesuffix("LMHeadModel").removesuffix("Decoder")
        assert stem.lower() in refusal.lower()
        return
    scale = expected.abs().max()
    torch.testing.assert_close(target.logits_of(TOKENS) / scale, expected / scale, atol=2e-5, rtol=0)
