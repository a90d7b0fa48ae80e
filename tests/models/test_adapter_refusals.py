"""What the adapter does not take is refused by name: nothing is ignored, nothing is wrong without a word."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from forerun.errors import ForerunError
from forerun.models.adapter import adapt, load_adapter
from forerun.models.adapter.probe import is_causal_within
from forerun.models.base import PassInput
from support.adapted_models import BASE, adapted, build, some_tokens

SMALL = {"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def _falcon() -> Any:
    return hf.FalconForCausalLM(hf.FalconConfig(**SMALL))


def _mamba() -> Any:
    return hf.MambaForCausalLM(hf.MambaConfig(vocab_size=96, hidden_size=64, num_hidden_layers=2))


def _t5() -> Any:
    return hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=96, d_model=64, d_ff=64, num_layers=2, num_heads=4))


def _llama4() -> Any:
    sizes = {"num_local_experts": 2, "intermediate_size_mlp": 64, "head_dim": 16}
    return hf.Llama4ForCausalLM(hf.Llama4TextConfig(**BASE, **sizes, attention_chunk_size=8))


def _doge() -> Any:
    return hf.DogeForCausalLM(hf.DogeConfig(**BASE))


def _minimax() -> Any:
    return hf.MiniMaxForCausalLM(hf.MiniMaxConfig(**BASE, num_local_experts=2))


def _recurrent_gemma() -> Any:
    return hf.RecurrentGemmaForCausalLM(hf.RecurrentGemmaConfig(**BASE, lru_width=64, attention_window_size=16))


@pytest.mark.parametrize(
    ("make", "name", "reason"),
    [
        (_falcon, "FalconForCausalLM", "does not declare the attention interface"),
        (_mamba, "MambaForCausalLM", "does not declare the attention interface"),
        (_t5, "T5ForConditionalGeneration", "encoder-decoder"),
        (_llama4, "Llama4ForCausalLM", "neither causal nor a causal window"),
        (_doge, "DogeForCausalLM", "changes its attention mask"),
        (_minimax, "MiniMaxForCausalLM", "rows depend on the rows beside them"),
        (_recurrent_gemma, "RecurrentGemmaForCausalLM", "rows depend on the rows beside them"),
    ],
)
def test_architectures_are_refused_by_name(make: Any, name: str, reason: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(ForerunError, match=f"{name}.*{reason}") as refusal:
        adapt(make())
    assert "\n" not in str(refusal.value)
    assert "_supports_attention_backend" in str(refusal.value)


def test_a_class_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    hf.FalconConfig(**SMALL).save_pretrained(tmp_path)
    with pytest.raises(ForerunError, match="FalconForCausalLM"):
        load_adapter(tmp_path, dtype=torch.float32, device="cpu")


class _Smeared(nn.Module):
    """A block output that has seen the row before it: a convolution along the sequence that nobody declares."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = self.inner(hidden)
        return out + 0.5 * torch.roll(out, 1, dims=1)


def test_a_model_that_mixes_rows_is_refused() -> None:
    model = build("olmo2")
    model.model.layers[1].mlp = _Smeared(model.model.layers[1].mlp)
    with pytest.raises(ForerunError, match="rows depend on the rows beside them"):
        adapt(model)


def test_a_model_that_takes_positions_from_the_row_order_is_refused() -> None:
    model = build("olmo2")
    rotary = model.model.rotary_emb.forward
    model.model.rotary_emb.forward = lambda x, position_ids: rotary(x, torch.arange(x.shape[1])[None])
    with pytest.raises(ForerunError, match="rows depend on the rows beside them"):
        adapt(model)


@pytest.mark.parametrize(
    ("name", "value"), [("position_bias", torch.zeros(1)), ("indices", torch.zeros(1)), ("dropout", 0.1)]
)
def test_attention_arguments_are_never_ignored(name: str, value: Any) -> None:
    model = build("olmo2")
    attention = model.model.layers[0].self_attn
    inner = attention.forward
    if name == "dropout":
        attention.attention_dropout = value
        attention.training = True
        model.eval = lambda: model  # a model that stays in training mode
    else:
        attention.forward = lambda *args, **kwargs: inner(*args, **kwargs, **{name: value})
    with pytest.raises(ForerunError, match=f"Olmo2Attention that passes '{name}'"):
        adapt(model)


def test_a_model_whose_attention_is_replaced_can_not_be_used_on_its_own() -> None:
    model = build("olmo2")
    adapt(model)
    with pytest.raises(ForerunError, match="called on its own"):
        model(torch.tensor([[5, 6]]))


def _longrope() -> Any:
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    config = hf.Phi3Config(**BASE, original_max_position_embeddings=32, rope_parameters=rope)
    return hf.Phi3ForCausalLM(config)


def _dynamic_ntk() -> Any:
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    return hf.Olmo2ForCausalLM(hf.Olmo2Config(**BASE | {"max_position_embeddings": 32}, rope_parameters=rope))


@pytest.mark.parametrize("make", [_longrope, _dynamic_ntk])
def test_rotary_scaling_by_the_longest_row_ends_the_context(make: Any) -> None:
    """Up to a length every row's angles are its own; beyond, the library lets the longest row change them all."""
    torch.manual_seed(0)
    model = make().eval()
    fresh = copy.deepcopy(model)  # a long batch leaves its frequencies behind in the library's model
    tokens = some_tokens(40)
    with torch.no_grad():
        expected, longer = model(torch.tensor([tokens[:32]])).logits[0], model(torch.tensor([tokens])).logits[0]
    assert not torch.allclose(expected, longer[:32], atol=1e-3), "the library's rows depend on the longest"
    target = adapt(fresh)
    assert target.traits.max_context == 32
    torch.testing.assert_close(target.logits_of(tokens[:32]), expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(ForerunError, match="positions below 32"):
        target.logits_of(tokens[:33])


def test_a_mask_is_looked_at_beyond_the_first_rows() -> None:
    def causal(_: Any, __: Any, row: Tensor, key: Tensor) -> Tensor:
        return key <= row

    def window(_: Any, __: Any, row: Tensor, key: Tensor) -> Tensor:
        return (key <= row) & (key > row - 100)

    def chunks(_: Any, __: Any, row: Tensor, key: Tensor) -> Tensor:
        return (key <= row) & (key // 8192 == row // 8192)

    def both_ways(_: Any, __: Any, row: Tensor, key: Tensor) -> Tensor:
        return key >= 0 * row

    assert is_causal_within(causal, None, 1 << 17)
    assert is_causal_within(window, 100, 1 << 17)
    assert not is_causal_within(window, None, 1 << 17)
    assert not is_causal_within(window, 101, 1 << 17)
    assert not is_causal_within(window, 99, 1 << 17)
    assert not is_causal_within(causal, 100, 1 << 17)
    assert not is_causal_within(chunks, None, 1 << 17)
    assert not is_causal_within(chunks, 8192, 1 << 17)
    assert not is_causal_within(both_ways, None, 1 << 17)


def test_a_directory_is_loaded_with_all_of_its_weights(tmp_path: Path) -> None:
    model = build("qwen3_moe")
    model.save_pretrained(tmp_path)
    target = load_adapter(tmp_path, dtype=torch.float32, device="cpu")
    assert torch.equal(target.logits_of(some_tokens(9)), adapted("qwen3_moe").logits_of(some_tokens(9)))
    assert target.traits.name == tmp_path.name
    assert target.traits.eos_token_ids == (2,)


@pytest.mark.parametrize("damage", ["missing", "shape", "truncated", "absent"])
def test_damaged_weights_are_refused(damage: str, tmp_path: Path) -> None:
    build("olmo2").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    if damage == "missing":
        weights.pop("model.layers.1.mlp.up_proj.weight")
        save_file(weights, path, {"format": "pt"})
    elif damage == "shape":
        weights["model.norm.weight"] = torch.ones(63)
        save_file(weights, path, {"format": "pt"})
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        path.unlink()
    with pytest.raises(ForerunError) as refusal:
        load_adapter(tmp_path, dtype=torch.float32, device="cpu")
    assert "\n" not in str(refusal.value)


def test_an_empty_pass_has_no_logits() -> None:
    target = adapted("olmo2")
    nothing = torch.zeros(0, dtype=torch.int64)
    batch = PassInput(nothing, nothing, nothing, (), (), (), {})
    assert target.forward(batch, target.new_store(1)).logits.shape == (0, 96)
