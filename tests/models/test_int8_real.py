"""What int8 weights cost: beside fp32 on the same weights, over shipped prompts."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.pool_types import texts
from benchmarks.weight_types import compare

from forerun.models.cache_root import cache_directory
from forerun.models.device import INT8
from forerun.models.loading.int8_gate import MAX_MEAN_KL
from forerun.models.loading.load_target import load_target
from forerun.models.native.kernels import find_kernels

pytestmark = [pytest.mark.real, pytest.mark.skipif(find_kernels() is None, reason="no kernels are built")]

QWEN = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


def check(model: str | Path) -> None:
    rounded = load_target(model, dtype=INT8, device="cpu")
    exact = load_target(model, dtype="float32", device="cpu")
    num_positions, kl, _ = compare(exact.target, rounded.target, texts(exact.tokenizer, 256, 4))
    assert num_positions >= 1000
    assert 0 < kl <= MAX_MEAN_KL


def test_smollm2_passes_the_gate() -> None:
    check("smollm2-135m")


def test_qwen_passes_the_gate() -> None:
    file = cache_directory() / QWEN
    if not file.exists():
        pytest.skip(f"{QWEN} isn't in the cache")
    check(file)
