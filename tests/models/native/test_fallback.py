"""Without kernels torch computes, and says once on stderr why and at what cost."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from forerun.cli import progress
from forerun.cli.main import main
from forerun.models.native import fallback, kernels
from support.tiny_directory import save_tiny_directory


@pytest.fixture(autouse=True)
def _said_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORERUN_KERNELS", raising=False)
    progress._say_fallback.cache_clear()


def without_kernels(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """As if no library had been built."""
    monkeypatch.setattr(kernels, "_load", lambda path: None)
    monkeypatch.setattr(fallback, "library_file", lambda path: directory / path)


def test_cost_is_that_of_streaming_or_more() -> None:
    assert 0.5 < fallback.cost_of_torch(torch.float32) < 1000


def test_reasons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_kernels(monkeypatch, tmp_path)
    monkeypatch.setattr(fallback, "cost_of_torch", lambda dtype: 2.345)
    line = fallback.describe_fallback(torch.bfloat16)
    assert line is not None and "are not built" in line and "takes 2.3 times" in line
    (tmp_path / "avx2").touch()
    line = fallback.describe_fallback(torch.bfloat16)
    assert line is not None and "run on this CPU" in line
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    assert fallback.describe_fallback(torch.bfloat16) is None


def test_said_once_for_target_and_draft_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(save_tiny_directory(tmp_path / "target"))
    words = ["generate", "--model", target, "--dtype", "float32", "--prompt", "abc", "--max-tokens", "4"]
    drafted = [*words, "--method", "draft_model", "--draft-model", target]
    without_kernels(monkeypatch, tmp_path / "nothing")
    assert main(drafted) == 0
    first = capsys.readouterr()
    assert first.err.count("torch computes instead") == 1
    assert main([*words, "--json"]) == 0
    second = capsys.readouterr()
    assert "torch computes" not in second.err
    assert '"kernels",\n        "torch"' in second.out or '["kernels", "torch"]' in second.out


def test_methods_names_the_kernels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    assert main(["methods"]) == 0
    assert "computed by: torch (built:" in " ".join(capsys.readouterr().out.split())
