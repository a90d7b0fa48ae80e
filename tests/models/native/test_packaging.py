"""The package as pip builds it: with a compiler it holds kernels that run, without one it works through torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from forerun.models.native.build import SOURCES, find_compiler

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="needs a checkout"),
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a build needs of this checkout, without what was built in it."""
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("lib", "*.egg-info", "__pycache__"))
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def wheel_of(checkout: Path, **environment: str) -> Path:
    out = checkout.parent / "wheels"
    words = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", out, checkout)
    run(*words, cwd=checkout, **environment)
    (wheel,) = out.glob("*.whl")
    return wheel


def kernels_of(wheel: Path) -> str:
    """What a process finds that imports the unpacked wheel."""
    installed = wheel.parent / "installed"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(installed)
    script = """
from forerun.models.native import kernels
found = kernels.find_kernels("auto")
print(kernels.__file__, found and found.path)
"""
    where, _, path = run("-c", script, cwd=wheel.parent, PYTHONPATH=str(installed)).strip().rpartition(" ")
    assert Path(where).is_relative_to(installed)
    return path


def test_with_a_compiler(checkout: Path) -> None:
    if find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    wheel = wheel_of(checkout)
    assert not wheel.name.endswith("any.whl"), "machine code is one platform's"
    assert kernels_of(wheel) not in ("None", "torch")


def test_without_a_compiler(checkout: Path) -> None:
    wheel = wheel_of(checkout, CXX=str(checkout / "no-such-compiler"))
    assert kernels_of(wheel) == "None"


def test_sources_hold_no_machine_code(checkout: Path) -> None:
    library = checkout / "src/forerun/models/native/lib"
    library.mkdir()
    (library / "forerun_avx2.so").touch()
    run("setup.py", "--quiet", "sdist", cwd=checkout, CXX=str(checkout / "no-such-compiler"))
    (archive,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
    assert {f"src/forerun/models/native/csrc/{source.name}" for source in SOURCES.iterdir()} <= set(names)
    assert "setup.py" in names
    assert not [name for name in names if name.endswith(".so")]
