"""Compiles the kernels: one small library per instruction set from the same sources.

The package's build calls ``build`` where a compiler is there; ``python -m forerun.models.native.build`` does it again
by hand. Nothing but a C++20 compiler is needed. Runs before forerun is installed, so it imports nothing of it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "csrc"
LIBRARIES = HERE / "lib"

_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512")
_AVX512_VNNI = (*_AVX512, "-mavx512vnni")
_AVX512_BF16 = (*_AVX512_VNNI, "-mavx512bf16")
# Compiler flags per instruction set ("path"), best last.
PATHS: dict[str, tuple[str, ...]] = {
    "baseline": (),
    "avx2": _AVX2,
    "avx2_vnni": (*_AVX2, "-mavxvnni"),
    "avx512": _AVX512,
    "avx512_vnni": _AVX512_VNNI,
    "avx512_bf16": _AVX512_BF16,
    "amx": (*_AVX512_BF16, "-mamx-tile", "-mamx-bf16"),
}
# The amx path with its tiles computed in memory: for tests on machines without AMX, slow, never chosen.
EMULATED = {"amx_emulated": ("-DFR_EMULATE_AMX",)}
# Contraction is off: whether a product and a sum are fused must not depend on how the compiler unrolls a loop.
_FLAGS = ("-O3", "-std=c++20", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-pthread", "-DNDEBUG")


def find_compiler() -> str | None:
    """``CXX``, else g++ or clang++ from the path, else None."""
    named = os.environ.get("CXX")
    return named or next((found for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), None)


def library_file(path: str, directory: Path = LIBRARIES) -> Path:
    """Where the library of one instruction set lies."""
    return directory / f"forerun_{path}.so"


def sources_number() -> int:
    """Stands for the text of all sources: a library of others may have other structures, or lay keys out otherwise."""
    text = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()) if path.suffix in (".h", ".cpp"))
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


def build(directory: Path = LIBRARIES, paths: Sequence[str] = tuple(PATHS)) -> list[str]:
    """Compiles those of ``paths`` whose flags the compiler has for this kind of machine; returns their names.

    Raises RuntimeError with the compiler's words where there is no compiler or it refuses.
    """
    compiler = find_compiler()
    if compiler is None:
        raise RuntimeError("no C++ compiler: install g++ or clang++, or set CXX")
    flags = {path: (PATHS | EMULATED)[path] for path in paths if _accepts(compiler, (PATHS | EMULATED)[path])}
    directory.mkdir(parents=True, exist_ok=True)
    # gcc makes tables of templates one for the whole process, whichever library they were loaded with first; the
    # libraries of two instruction sets need their own.
    common = [*_FLAGS, *(["-fno-gnu-unique"] if _accepts(compiler, ["-fno-gnu-unique"]) else [])]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for _ in pool.map(lambda path: _compile(compiler, [*common, *flags[path]], path, directory), flags):
            pass
    return list(flags)


def _accepts(compiler: str, flags: Sequence[str]) -> bool:
    command = [*shlex.split(compiler), *flags, "-Werror", "-E", "-x", "c++", os.devnull]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError as error:
        raise RuntimeError(f"{compiler} doesn't start: {error}") from error


def _compile(compiler: str, flags: Sequence[str], path: str, directory: Path) -> None:
    out = library_file(path, directory)
    fresh = out.with_suffix(f".{os.getpid()}.tmp")
    sources = sorted(str(source) for source in SOURCES.glob("*.cpp"))
    names = [f'-DFR_PATH="{path}"', f"-DFR_SOURCES={sources_number()}"]
    command = [*shlex.split(compiler), *flags, *names, *sources, "-o", str(fresh)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        fresh.unlink(missing_ok=True)
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr.strip()[-2000:]}")
    # A process that has the old library mapped keeps it: the file is replaced, not written over.
    fresh.replace(out)


if __name__ == "__main__":
    # It takes no words: --help says so, and any other is refused.
    argparse.ArgumentParser(prog="python -m forerun.models.native.build", description=__doc__).parse_args()
    try:
        print("built", ", ".join(build()))
    except RuntimeError as error:
        sys.exit(str(error))
