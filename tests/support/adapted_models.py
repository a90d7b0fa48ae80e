"""Tiny random Hugging Face models outside the lean families, for the adapter's tests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

from forerun.models.adapter import adapt
from forerun.models.adapter.adapter_target import AdapterTarget

logging.getLogger("transformers").setLevel(logging.ERROR)

BASE: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING_AND_FULL = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
HYBRID = ["linear_attention", "full_attention", "linear_attention"]
DELTA: dict[str, Any] = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "layer_types": HYBRID,
}
MOE: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
SHARED_KV: dict[str, Any] = {
    "num_hidden_layers": 4,
    "head_dim": 16,
    "num_kv_shared_layers": 2,
    "layer_types": SLIDING_AND_FULL,
    "vocab_size_per_layer_input": 96,
    "hidden_size_per_layer_input": 8,
    "sliding_window": 8,
}


def _olmo2() -> Any:
    return hf.Olmo2ForCausalLM(hf.Olmo2Config(**BASE))


def _phi3() -> Any:
    return hf.Phi3ForCausalLM(hf.Phi3Config(**BASE, sliding_window=9))


def _granite() -> Any:
    scales = {"logits_scaling": 0.3, "embedding_multiplier": 2.0, "residual_multiplier": 0.7}
    return hf.GraniteForCausalLM(hf.GraniteConfig(**BASE, **scales, attention_multiplier=0.3))


def _glm4() -> Any:
    return hf.Glm4ForCausalLM(hf.Glm4Config(**BASE, head_dim=16))


def _cohere2() -> Any:
    return hf.Cohere2ForCausalLM(
        hf.Cohere2Config(**BASE, sliding_window=8, layer_types=SLIDING_AND_FULL[:3], logit_scale=1.5)
    )


def _gemma2() -> Any:
    caps = {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0}
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**BASE, head_dim=16, sliding_window=8, **caps))


def _gpt2() -> Any:
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=96, n_embd=64, n_layer=3, n_head=4, n_positions=128))


def _opt() -> Any:
    sizes = {"hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
    return hf.OPTForCausalLM(hf.OPTConfig(vocab_size=96, max_position_embeddings=128, **sizes))


def _deepseek_v3() -> Any:
    latent = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
    groups = {"n_routed_experts": 8, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1}
    return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**BASE | {"num_key_value_heads": 4}, **MOE, **latent, **groups))


def _mixtral() -> Any:
    return hf.MixtralForCausalLM(hf.MixtralConfig(**BASE, num_local_experts=4))


def _qwen3_moe() -> Any:
    return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**BASE, **MOE, head_dim=16, num_experts=8))


def _olmoe() -> Any:
    return hf.OlmoeForCausalLM(hf.OlmoeConfig(**BASE, num_experts=8, num_experts_per_tok=2))


def _gpt_oss() -> Any:
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    return hf.GptOssForCausalLM(hf.GptOssConfig(**BASE, **experts, head_dim=16, sliding_window=8, rope_parameters=rope))


def _jetmoe() -> Any:
    return hf.JetMoeForCausalLM(hf.JetMoeConfig(**BASE, kv_channels=16, num_local_experts=4))


def _gemma3n() -> Any:
    sparse = [0.5, 0.0, 0.0, 0.0]
    return hf.Gemma3nForCausalLM(
        hf.Gemma3nTextConfig(**BASE | SHARED_KV, laurel_rank=8, activation_sparsity_pattern=sparse)
    )


def _gemma4() -> Any:
    return hf.Gemma4ForCausalLM(hf.Gemma4TextConfig(**BASE | SHARED_KV, global_head_dim=32))


def _qwen3_next() -> Any:
    experts = {"num_experts": 4, "shared_expert_intermediate_size": 32}
    return hf.Qwen3NextForCausalLM(hf.Qwen3NextConfig(**BASE, **MOE, **DELTA, **experts, head_dim=16))


def _qwen3_5() -> Any:
    return hf.Qwen3_5ForCausalLM(hf.Qwen3_5TextConfig(**BASE, **DELTA, head_dim=16))


def _olmo_hybrid() -> Any:
    return hf.OlmoHybridForCausalLM(hf.OlmoHybridConfig(**BASE, **DELTA))


def _lfm2() -> Any:
    return hf.Lfm2ForCausalLM(hf.Lfm2Config(**BASE, layer_types=["conv", "full_attention", "conv"]))


def _granite_hybrid() -> Any:
    mamba = {
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
        "mamba_d_state": 16,
        "layer_types": ["mamba", "attention", "mamba"],
    }
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32}
    return hf.GraniteMoeHybridForCausalLM(hf.GraniteMoeHybridConfig(**BASE, **mamba, **experts))


Builder = Callable[[], Any]

DENSE: dict[str, Builder] = {
    "olmo2": _olmo2,
    "phi3": _phi3,
    "granite": _granite,
    "glm4": _glm4,
    "cohere2": _cohere2,
    "gemma2": _gemma2,
    "gpt2": _gpt2,
    "opt": _opt,
}
EXPERTS: dict[str, Builder] = {
    "mixtral": _mixtral,
    "qwen3_moe": _qwen3_moe,
    "olmoe": _olmoe,
    "gpt_oss": _gpt_oss,
    "deepseek_v3": _deepseek_v3,
    "jetmoe": _jetmoe,
}
SHARING: dict[str, Builder] = {"gemma3n": _gemma3n, "gemma4": _gemma4}
RECURRENT: dict[str, Builder] = {
    "qwen3_next": _qwen3_next,
    "qwen3_5": _qwen3_5,
    "olmo_hybrid": _olmo_hybrid,
    "lfm2": _lfm2,
    "granite_hybrid": _granite_hybrid,
}
ALL: dict[str, Builder] = DENSE | EXPERTS | SHARING | RECURRENT

# Experts that the library evaluates outside its experts interface: driven, but not bit-exact.
NOT_EXACT = frozenset({"jetmoe"})


def build(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """The model with random weights large enough that tokens, positions and experts all matter."""
    torch.manual_seed(sum(name.encode()))
    model = ALL[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.08)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.to(dtype)


def adapted(name: str, dtype: torch.dtype = torch.float32) -> AdapterTarget:
    """The same model behind the adapter."""
    return adapt(build(name, dtype), name)


def some_tokens(count: int, seed: int = 0) -> list[int]:
    """Random ids without the special ones."""
    generator = torch.Generator().manual_seed(seed)
    tokens: list[int] = torch.randint(3, 96, (count,), generator=generator).tolist()
    return tokens
