"""One place for everything that is kept, with or without FORERUN_CACHE."""

from __future__ import annotations

from pathlib import Path

import pytest

from forerun.engine.costs.cost_cache import costs_directory
from forerun.models.cache_root import cache_directory, cache_root
from forerun.models.loading.int8_gate import write_gate


def test_without_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORERUN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "forerun"
    assert cache_directory() == tmp_path / ".cache" / "forerun" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "forerun" / "models"
    assert costs_directory() == tmp_path / "xdg" / "forerun" / "pass_costs"


def test_everything_lies_beneath_forerun_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path / "own"))
    assert cache_root() == cache_directory() == tmp_path / "own"
    assert costs_directory() == tmp_path / "own" / "pass_costs"
    write_gate("sha256:ab", 0.001, 2000)
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.json")] == [Path("own/int8_gates/ab.json")]
