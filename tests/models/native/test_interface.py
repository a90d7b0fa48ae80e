"""A library built from another C interface is never called: it would read structures that it doesn't know."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from forerun.models.native import kernels
from forerun.models.native.build import find_compiler, library_file
from forerun.models.native.kernels import Kernels, StaleLibraryError, find_kernels


@pytest.fixture
def file() -> Path:
    found = find_kernels()
    if found is None:
        pytest.skip("no native kernels here")
    return library_file(found.path)


def test_another_interface_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Kernels(file).path
    monkeypatch.setattr(kernels, "sources_number", lambda: 1)
    with pytest.raises(StaleLibraryError):
        Kernels(file)


def test_a_library_that_knows_no_number_is_refused(tmp_path: Path) -> None:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no compiler here")
    source = tmp_path / "old.cpp"
    source.write_text('extern "C" int fr_start(void) { return 1; }')
    subprocess.run([*compiler.split(), "-shared", "-fPIC", str(source), "-o", str(tmp_path / "old.so")], check=True)
    with pytest.raises(StaleLibraryError):
        Kernels(tmp_path / "old.so")


def test_torch_serves_instead_and_it_is_said_how_to_build(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_load", kernels._load.__wrapped__)  # what was loaded before stays as it was
    monkeypatch.setattr(kernels, "sources_number", lambda: 1)
    with pytest.warns(RuntimeWarning, match="build them again: python -m"):
        assert find_kernels("auto") is None
