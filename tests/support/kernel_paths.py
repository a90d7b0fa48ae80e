"""The kernel libraries that can be tried on this machine."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from forerun.errors import ForerunError
from forerun.models.native.build import EMULATED, PATHS, SOURCES, build, find_compiler, library_file
from forerun.models.native.kernels import Kernels, find_kernels

NATIVE_PATHS = [*PATHS, *EMULATED]


def kernels_of(path: str, cache: Path) -> Kernels:
    """The library of one path; emulated ones are compiled into ``cache`` when sources changed. Skips what can't run."""
    if path in EMULATED:
        return _emulated(path, cache)
    try:
        found = find_kernels(path)
    except ForerunError as error:
        pytest.skip(str(error))
    assert found is not None and found.path == path
    return found


@functools.cache
def _emulated(path: str, cache: Path) -> Kernels:
    file = library_file(path, cache)
    newest = max(source.stat().st_mtime for source in SOURCES.iterdir())
    if not file.exists() or file.stat().st_mtime < newest:
        if find_compiler() is None:
            pytest.skip("needs a C++ compiler")
        build(cache, [path])
    return Kernels(file)
