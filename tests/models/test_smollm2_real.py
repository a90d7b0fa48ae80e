"""The embedded default against transformers' own reading of its file: greedy text in fp32, tokenizer, bf16 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.pull import pull
from support.passes import Chunk, batch_of, run_chunked

pytestmark = pytest.mark.real

NUM_NEW_TOKENS = 24
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "Water boils at 100 degrees, and it freezes at",
    "The three primary colours are",
    "import json\n\nwith open('data.json') as file:\n",
    "Q: What is 12 * 7?\nA:",
    "In 1969, the first human",
    "A haiku about rain:\n",
    "SELECT name, age FROM users WHERE",
    "The mitochondria is",
    "Dear Sir or Madam,\n\nI am writing to",
    "1, 2, 3, 5, 8, 13,",
    "Bonjour, je m'appelle",
    "<html>\n<head>\n<title>",
    "The quick brown fox",
]
CHATS = ["What is gravity?", "Write a short poem about snow.", "Name three animals that can fly.", "Sum 3, 4 and 10."]


@pytest.fixture(scope="module")
def path() -> Path:
    return pull("smollm2-135m")


@pytest.fixture(scope="module")
def exact(path: Path) -> LoadedTarget:
    return load_target(path, dtype="float32", device="cpu")


def greedy(loaded: LoadedTarget, prompt: list[int]) -> list[int]:
    target, ends = loaded.target, loaded.tokenizer.eos_token_ids
    slots = torch.arange(len(prompt) + NUM_NEW_TOKENS)
    store = target.new_store(len(slots))
    logits, made = run_chunked(target, prompt, 64, slots[: len(prompt)], store)[-1], []
    while True:
        made.append(int(logits.argmax()))
        if len(made) == NUM_NEW_TOKENS or made[-1] in ends:
            return made
        at = len(prompt) + len(made) - 1
        logits = target.forward(batch_of([Chunk(made[-1:], at, slots)]), store).logits[0]


def as_transformers_reads_it(path: Path) -> Any:
    """``from_pretrained(gguf_file=...)`` in two steps, which need no accelerate."""
    config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    assert set(model.load_state_dict(tensors, strict=False).missing_keys) <= {"lm_head.weight"}
    model.tie_weights()
    return model


def test_greedy_text_equals_transformers(path: Path, exact: LoadedTarget) -> None:
    reference = as_transformers_reads_it(path)
    prompts = [exact.tokenizer.encode(text) for text in PROMPTS]
    prompts += [exact.tokenizer.chat([{"role": "user", "content": text}]) for text in CHATS]
    assert len(prompts) == 20
    for prompt in prompts:
        ids = torch.tensor([prompt])
        with torch.no_grad():
            made = reference.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NUM_NEW_TOKENS,
                do_sample=False,
                eos_token_id=list(exact.tokenizer.eos_token_ids),
                pad_token_id=0,
            )
        assert greedy(exact, prompt) == made[0, len(prompt) :].tolist(), exact.tokenizer.decode(prompt)


def test_tokenizer_round_trips_and_agrees_where_transformers_cuts_alike(path: Path, exact: LoadedTarget) -> None:
    reference = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    for text in [*PROMPTS, *CHATS, "naïve 日本語 🙂🙃", "  two  spaces\t\ttabs\r\n", "<|im_start|>user\nhi<|im_end|>"]:
        ids = exact.tokenizer.encode(text)
        assert exact.tokenizer.decode(ids) == text
        assert ids == reference.encode(text), text
    # SmolLM2's own tokenizer takes digits one by one and before everything else, so both newlines stay together.
    assert [exact.tokenizer.decode([token]) for token in exact.tokenizer.encode("x\n\n12")] == ["x", "\n\n", "1", "2"]


def test_rows_have_the_same_bits_in_bf16(path: Path) -> None:
    loaded = load_target(path, dtype="bfloat16", device="cpu")
    tokens = loaded.tokenizer.encode(" ".join(PROMPTS))[:90]
    expected = run_chunked(loaded.target, tokens, 1)
    before = torch.get_num_threads()
    try:
        for threads, size in ((1, 7), (2, 16), (2, 90)):
            torch.set_num_threads(threads)
            assert torch.equal(run_chunked(loaded.target, tokens, size), expected), (threads, size)
    finally:
        torch.set_num_threads(before)
