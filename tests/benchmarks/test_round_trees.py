"""Trees in turn: each runs its own files, and what can't be compared is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.round_trees import ROOT, Tree, difference_of, main

from forerun.errors import ForerunError
from support.tiny_directory import save_tiny_directory

WORDS = ["ngram", "0", "0.0", "4"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_directory(tmp_path_factory.mktemp("model")))


def test_what_is_no_tree_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ForerunError, match="found no src/forerun/__init__"):
        Tree(tmp_path / "old", ["no model", *WORDS])


def test_a_tree_that_runs_anothers_files_is_refused(tmp_path: Path, model: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "forerun").symlink_to(ROOT / "src" / "forerun")
    with pytest.raises(ForerunError, match="name a tree that holds its own files"):
        Tree(tmp_path, [model, *WORDS])


def test_a_row_per_tree_with_its_kernels(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    monkeypatch.setattr("sys.argv", ["round_trees", model, str(ROOT), "--tokens", "4", "--repeats", "6"])
    main()
    head, row = capsys.readouterr().out.splitlines()
    assert head.startswith("pass ms") and row.endswith(f"{ROOT}, kernels torch")
    assert "too few" not in row


def test_kernels_that_differ_are_named() -> None:
    assert difference_of(["amx", "amx"]) == ""
    assert "differ (torch, amx)" in difference_of(["torch", "amx"])
