"""Which path auto takes on a CPU, by the flags that it has."""

from __future__ import annotations

import pytest

from forerun.models.cpu_info import cpu_flags
from forerun.models.native import kernels
from forerun.models.native.build import PATHS, library_file
from forerun.models.native.kernels import find_kernels

AVX2 = {"avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
MACHINES = [
    ("SSE2 alone", {"sse2"}, "baseline"),
    ("Haswell to Comet Lake, Zen 1 to 3", AVX2, "avx2"),
    ("Alder Lake and later", AVX2 | {"avx_vnni"}, "avx2_vnni"),
    ("Skylake-X", AVX512, "avx512"),
    ("Cascade Lake, Ice Lake", AVX512 | {"avx512_vnni"}, "avx512_vnni"),
    ("Cooper Lake, Zen 4", AVX512 | {"avx512_vnni", "avx512_bf16"}, "avx512_bf16"),
    ("Zen 5", AVX512 | {"avx512_vnni", "avx512_bf16", "avx_vnni"}, "avx512_bf16"),
]


@pytest.mark.parametrize(("flags", "path"), [machine[1:] for machine in MACHINES], ids=[name for name, *_ in MACHINES])
def test_auto_takes_the_best_path(flags: set[str], path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not library_file(path).exists() or not kernels._NEEDS[path] <= cpu_flags():
        pytest.skip(f"{path} is not built or doesn't run here")
    monkeypatch.setattr(kernels, "_load", kernels._load.__wrapped__)  # what was loaded before stays as it was
    monkeypatch.setattr(kernels, "cpu_flags", lambda: frozenset(flags))
    found = find_kernels("auto")
    assert found is not None and found.path == path


def test_every_path_says_what_it_needs() -> None:
    assert kernels._NEEDS.keys() == PATHS.keys()
