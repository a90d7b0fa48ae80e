"""One block of the lean decoder: attention over the pool, then a gated MLP, residual stream in fp32."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from forerun.models.arithmetic.arithmetic import Arithmetic
from forerun.models.arithmetic.attention import Attention
from forerun.models.arithmetic.linear import Linear
from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.exact_ops import gelu_tanh, silu
from forerun.models.kv_layer import KVLayer
from forerun.models.rotary import rotate


def unset(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A weight that nobody has loaded yet: NaN, so that a forgotten tensor can't pass unseen."""
    return torch.full(shape, float("nan"), dtype=dtype, device=device)


class RMSNorm(nn.Module):
    """x / rms(x) · weight in fp32; families that store weight - 1 are corrected while loading."""

    def __init__(self, width: int, eps: float, device: torch.device) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(unset(width, dtype=torch.float32, device=device), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., width]; torch's kernel works row by row in one order."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class DecoderLayer(nn.Module):
    """Fused q, k, v and gate, up projections; weights come in through ``weight_slots``."""

    def __init__(
        self,
        config: DecoderConfig,
        layer: LayerConfig,
        dtype: torch.dtype,
        device: torch.device,
        arithmetic: Arithmetic,
        attention: Attention[Any],
    ) -> None:
        super().__init__()
        self.config = config
        self.layer = layer
        self.attention = attention
        hidden, width = config.hidden_size, config.head_dim

        def linear(outputs: int, inputs: int, has_bias: bool) -> Linear:
            bias = unset(outputs, dtype=dtype, device=device) if has_bias else None
            return arithmetic.linear(unset(outputs, inputs, dtype=dtype, device=device), bias)

        self.qkv = linear((config.num_heads + 2 * config.num_kv_heads) * width, hidden, config.has_qkv_bias)
        self.output = linear(hidden, config.num_heads * width, config.has_output_bias)
        self.gate_up = linear(2 * config.intermediate_size, hidden, config.has_mlp_bias)
        self.down = linear(hidden, config.intermediate_size, config.has_mlp_bias)
        norms = {"attention_norm": hidden, "mlp_norm": hidden}
        if config.has_qk_norm:
            norms |= {"query_norm": width, "key_norm": width}
        if config.has_sandwich_norms:
            norms |= {"attention_output_norm": hidden, "mlp_output_norm": hidden}
        self.norms = nn.ModuleDict({name: RMSNorm(size, config.norm_eps, device) for name, size in norms.items()})

    def weight_slots(self) -> dict[str, Tensor]:
        """Views to load into, by the names that Hugging Face checkpoints use within a block."""
        config = self.config
        heads = [config.num_heads * config.head_dim] + [config.num_kv_heads * config.head_dim] * 2
        fused: dict[str, tuple[Linear, tuple[str, ...], list[int]]] = {
            "self_attn": (self.qkv, ("q_proj", "k_proj", "v_proj"), heads),
            "mlp": (self.gate_up, ("gate_proj", "up_proj"), [config.intermediate_size] * 2),
        }
        slots: dict[str, Tensor] = {}
        for module, (linear, parts, sizes) in fused.items():
            for kind, tensor in (("weight", linear.weight), ("bias", linear.bias)):
                if tensor is not None:
                    views = torch.split(tensor.data, sizes)
                    slots |= {f"{module}.{part}.{kind}": view for part, view in zip(parts, views, strict=True)}
        for name, linear in (("self_attn.o_proj", self.output), ("mlp.down_proj", self.down)):
            slots[f"{name}.weight"] = linear.weight.data
            if linear.bias is not None:
                slots[f"{name}.bias"] = linear.bias.data
        return slots | {f"{name}.weight": self._norm_slot(norm) for norm, name in self._norm_names().items()}

    def _norm_names(self) -> dict[str, str]:
        names = {"attention_norm": "input_layernorm"}
        if self.config.has_qk_norm:
            names |= {"query_norm": "self_attn.q_norm", "key_norm": "self_attn.k_norm"}
        if self.config.has_sandwich_norms:
            return names | {
                "attention_output_norm": "post_attention_layernorm",
                "mlp_norm": "pre_feedforward_layernorm",
                "mlp_output_norm": "post_feedforward_layernorm",
            }
        return names | {"mlp_norm": "post_attention_layernorm"}

    def _norm_slot(self, name: str) -> Tensor:
        norm = self.norms[name]
        assert isinstance(norm, RMSNorm)
        return norm.weight.data

    def forward(self, x: Tensor, slots: Tensor, angles: tuple[Tensor, Tensor], plan: Any, pool: KVLayer) -> Tensor:
        """Residual stream fp32 [rows, hidden] through the block; writes the rows' keys and values into ``slots``."""
        mixed = self._attention(self.norms["attention_norm"](x), slots, angles, plan, pool)
        x = x + (self.norms["attention_output_norm"](mixed) if self.config.has_sandwich_norms else mixed)
        fed = self._mlp(self.norms["mlp_norm"](x))
        out: Tensor = x + (self.norms["mlp_output_norm"](fed) if self.config.has_sandwich_norms else fed)
        return out

    def _attention(self, x: Tensor, slots: Tensor, angles: tuple[Tensor, Tensor], plan: Any, pool: KVLayer) -> Tensor:
        config = self.config
        projected = self.qkv(x).float().view(x.shape[0], -1, config.head_dim)
        query, key, value = torch.split(projected, [config.num_heads, config.num_kv_heads, config.num_kv_heads], 1)
        if config.has_qk_norm:
            query, key = self.norms["query_norm"](query), self.norms["key_norm"](key)
        query, key = rotate(query, angles), rotate(key, angles)
        pool.write(slots, key, value)
        mixed = self.attention.attend(query, pool, plan)
        out: Tensor = self.output(mixed.flatten(1)).float()
        return out

    def _mlp(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).float().chunk(2, -1)
        act = silu(gate) if self.config.activation == "silu" else gelu_tanh(gate)
        out: Tensor = self.down(act * up).float()
        return out
