"""The lean decoder against transformers on tiny random weights: whole prompts, token by token, taps, shards."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from forerun.models.base import AttentionGroup, PassInput
from forerun.types import Tap, TapKind
from support.passes import run_chunked
from support.tiny_models import BY_NAME, TINY_MODELS, TinyModel, load, random_tokens

NUM_TOKENS = 90  # several key blocks and more than any window


@pytest.mark.parametrize("tiny", TINY_MODELS, ids=lambda tiny: tiny.name)
def test_logits_equal_transformers(tiny: TinyModel, tmp_path: Path) -> None:
    reference = tiny.save(tmp_path)
    target = load(tmp_path)
    tokens = random_tokens(NUM_TOKENS)
    with torch.no_grad():
        expected = reference(torch.tensor([tokens])).logits[0]
    scale = expected.abs().max()
    whole = target.logits_of(tokens)
    assert whole.dtype is torch.float32
    assert scale > 0.5, "a model whose logits are all alike would prove nothing"
    torch.testing.assert_close(whole / scale, expected / scale, atol=1e-5, rtol=0)
    by_token = run_chunked(target, tokens, 1)
    torch.testing.assert_close(by_token / scale, expected / scale, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_taps_equal_the_hidden_states_of_transformers(name: str, tmp_path: Path) -> None:
    reference = BY_NAME[name].save(tmp_path)
    target = load(tmp_path)
    tokens = random_tokens(40)
    last = target.config.num_layers - 1
    before, after = Tap(TapKind.BEFORE_FINAL_NORM), Tap(TapKind.AFTER_FINAL_NORM)
    taps = frozenset({Tap.of_block(0), Tap.of_block(1), Tap.of_block(last), before, after})
    rows = torch.arange(len(tokens))
    group = AttentionGroup(tuple(range(len(tokens))), rows)
    batch = PassInput(torch.tensor(tokens), rows, rows, (0,) * len(tokens), (group,), (3, 39), {0: len(tokens)})
    out = target.forward(batch, target.new_store(len(tokens)), taps)
    with torch.no_grad():
        states = reference(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    for tap, expected in ((Tap.of_block(0), states[1]), (Tap.of_block(1), states[2]), (after, states[-1])):
        scale = expected.abs().max()
        torch.testing.assert_close(out.taps[tap] / scale, expected[0] / scale, atol=1e-5, rtol=0)
    assert torch.equal(out.taps[before], out.taps[Tap.of_block(last)])
    assert torch.equal(out.logits, target.head(out.taps[after][[3, 39]]))
    with torch.no_grad():
        torch.testing.assert_close(target.embed(torch.tensor(tokens)), states[0][0], atol=1e-6, rtol=1e-6)


def test_a_block_that_is_not_there_cannot_be_tapped(tmp_path: Path) -> None:
    BY_NAME["llama"].save(tmp_path)
    target = load(tmp_path)
    rows = torch.arange(1)
    batch = PassInput(torch.tensor([5]), rows, rows, (0,), (AttentionGroup((0,), rows),), (0,), {0: 1})
    with pytest.raises(ValueError, match="block 3"):
        target.forward(batch, target.new_store(1), frozenset({Tap.of_block(3)}))


def test_bf16_stays_near_fp32(tmp_path: Path) -> None:
    BY_NAME["qwen3"].save(tmp_path)
    tokens = random_tokens(50)
    exact, rounded = load(tmp_path).logits_of(tokens), load(tmp_path, torch.bfloat16).logits_of(tokens)
    assert rounded.dtype is torch.float32
    assert not torch.equal(rounded, rounded.bfloat16().float()), "the head must not round to bf16"
    assert (rounded - exact).abs().mean() / exact.std() < 0.05


def test_sharded_checkpoints_load_like_single_ones(tmp_path: Path) -> None:
    tiny = BY_NAME["qwen2"]
    tiny.save(tmp_path / "one")
    tiny.save(tmp_path / "many", max_shard_size="30KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    tokens = random_tokens(20)
    assert torch.equal(load(tmp_path / "one").logits_of(tokens), load(tmp_path / "many").logits_of(tokens))
