"""The adapter against the library's own forward, on tiny random weights in fp32: whole prompts and token by token."""

from __future__ import annotations

import pytest
import torch
import transformers as hf

from forerun.models.adapter import adapt
from support.adapted_models import ALL, BASE, NOT_EXACT, RECURRENT, SHARING, adapted, build, some_tokens
from support.passes import run_chunked

NUM_TOKENS = 75  # more than a key block and than any window
NUM_STEPS = 20  # more than a tile and than any window


@pytest.mark.parametrize("name", ALL)
def test_logits_equal_the_librarys(name: str) -> None:
    tokens = some_tokens(NUM_TOKENS)
    with torch.no_grad():
        expected = build(name)(torch.tensor([tokens])).logits[0]
    scale = expected.abs().max()
    target = adapted(name)
    assert scale > 0.5, "a model whose logits are all alike would prove nothing"
    assert (expected.argmax(-1)[1:] != expected.argmax(-1)[:-1]).any()
    whole = target.logits_of(tokens)
    assert whole.dtype is torch.float32
    torch.testing.assert_close(whole / scale, expected / scale, atol=1e-5, rtol=0)
    by_token = run_chunked(target, tokens[:NUM_STEPS], 1)
    torch.testing.assert_close(by_token / scale, expected[:NUM_STEPS] / scale, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ALL)
def test_traits_say_what_the_model_is(name: str) -> None:
    traits = adapted(name).traits
    assert traits.vocab_size == 96
    assert traits.num_layers == (4 if name in SHARING else 3)
    assert traits.has_recurrent_state == (name in RECURRENT)
    assert traits.is_bit_exact == (name not in NOT_EXACT)


@pytest.mark.parametrize("name", SHARING)
def test_layers_that_share_keys_share_a_pool_layer(name: str) -> None:
    target = adapted(name)
    store = target.new_store(4)
    assert len(store.keys) == 2
    assert target.traits.num_layers == 4


def test_a_window_reaches_attention_and_not_only_the_mask() -> None:
    near, far = some_tokens(60), some_tokens(60)
    far[0] = near[0] + 1 if near[0] < 95 else 3
    target = adapted("phi3")  # every layer has a window of 9: three layers reach back 24 positions
    assert not torch.equal(target.logits_of(near)[20], target.logits_of(far)[20])
    assert torch.equal(target.logits_of(near)[25:], target.logits_of(far)[25:])


@pytest.mark.parametrize("name", ["olmo2", "mixtral", "qwen3_5"])
def test_bf16_logits_are_fp32_and_not_rounded(name: str) -> None:
    logits = adapted(name, torch.bfloat16).logits_of(some_tokens(20))
    assert logits.dtype is torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())
    exact = build(name)
    with torch.no_grad():
        expected = exact(torch.tensor([some_tokens(20)])).logits[0]
    assert torch.corrcoef(torch.stack([logits.flatten(), expected.flatten()]))[0, 1] > 0.98


def test_the_text_of_a_multimodal_model_is_served() -> None:
    """Its image tower has as many blocks as the text; masks for images fall away without any."""
    tower = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    config = hf.Gemma3Config(
        text_config=hf.Gemma3TextConfig(**BASE, head_dim=16, sliding_window=8),
        vision_config=hf.SiglipVisionConfig(num_hidden_layers=BASE["num_hidden_layers"], **tower),
        mm_tokens_per_image=4,
        image_token_index=95,
    )
    torch.manual_seed(0)
    model = hf.Gemma3ForConditionalGeneration(config).eval()
    tokens = [token for token in some_tokens(NUM_TOKENS) if token != 95]
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.08)
        expected = model(torch.tensor([tokens])).logits[0]
    torch.testing.assert_close(adapt(model).logits_of(tokens), expected, atol=1e-5, rtol=1e-5)
