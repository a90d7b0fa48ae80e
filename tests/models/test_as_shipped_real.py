"""What int8 activations cost: as shipped beside fp32 on the same weights, over shipped prompts."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.pool_types import texts
from benchmarks.weight_types import compare

from forerun.models.cache_root import cache_directory
from forerun.models.device import AS_SHIPPED
from forerun.models.loading.load_target import load_target
from forerun.models.native.kernels import find_kernels

pytestmark = [pytest.mark.real, pytest.mark.skipif(find_kernels() is None, reason="no kernels are built")]

QWEN = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


def check(model: str | Path) -> None:
    shipped = load_target(model, dtype=AS_SHIPPED, device="cpu")
    exact = load_target(model, dtype="float32", device="cpu")
    prompts = texts(shipped.tokenizer, 512, 4)
    num_positions, kl, top_1 = compare(exact.target, shipped.target, prompts)
    assert num_positions >= 2000
    assert 0 < kl <= 0.005
    assert top_1 >= 0.94


def test_smollm2_keeps_its_text_within_the_gates() -> None:
    check("smollm2-135m")


def test_qwen_keeps_its_text_within_the_gates() -> None:
    file = cache_directory() / QWEN
    if not file.exists():
        pytest.skip(f"{QWEN} isn't in the cache")
    check(file)
