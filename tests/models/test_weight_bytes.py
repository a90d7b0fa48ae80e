"""How much memory weights are said to take, on every kind of target."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from forerun.models.loading.load_directory import load_directory_target
from forerun.models.native.kernels import find_kernels
from support.tiny_models import BY_NAME

CPU = torch.device("cpu")


def bytes_of(directory: Path, dtype: torch.dtype) -> int:
    return load_directory_target(directory, AutoConfig.from_pretrained(directory), dtype, CPU).weight_bytes


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen2_tied"])
def test_a_decoder_holds_every_parameter_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = BY_NAME[name]
    model.save(tmp_path)
    parameters = sum(parameter.numel() for parameter in model.build().parameters())
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    # A packed head can't be looked up row by row, so a tied embedding is there twice.
    extra = model.build().get_input_embeddings().weight.numel() if name == "qwen2_tied" else 0
    assert bytes_of(tmp_path, torch.float32) == 4 * (parameters + extra)


@pytest.mark.skipif(find_kernels() is None, reason="no kernels are built")
def test_packed_panels_are_counted_with_their_padding(tmp_path: Path) -> None:
    model = BY_NAME["qwen2_tied"]
    model.save(tmp_path)
    parameters = sum(parameter.numel() for parameter in model.build().parameters())
    full, half = bytes_of(tmp_path, torch.float32), bytes_of(tmp_path, torch.bfloat16)
    assert 4 * parameters <= full < 6 * parameters
    assert full / 2 <= half < 0.7 * full
