"""The loaded kernel library, and which of the built ones this machine runs."""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from forerun.errors import ForerunError
from forerun.models.cpu_info import cpu_flags
from forerun.models.native.build import PATHS, library_file, sources_number
from forerun.models.native.structs import BlockPanelStruct, DecoderStruct, LinearStruct, PassStruct

_AVX2 = frozenset({"avx2", "fma", "f16c"})
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"})
_AVX512_VNNI = _AVX512 | {"avx512_vnni"}
_AVX512_BF16 = _AVX512_VNNI | {"avx512_bf16"}
# Flags of /proc/cpuinfo that a path needs.
_NEEDS = {
    "baseline": frozenset[str](),
    "avx2": _AVX2,
    "avx2_vnni": _AVX2 | {"avx_vnni"},
    "avx512": _AVX512,
    "avx512_vnni": _AVX512_VNNI,
    "avx512_bf16": _AVX512_BF16,
    "amx": _AVX512_BF16 | {"amx_tile", "amx_bf16"},
}
# Paths whose bf16 linears round rows to bf16; on the others bf16 weights give the bits of the same numbers in fp32.
_ROUNDS_ROWS = frozenset({"avx512_bf16", "amx", "amx_emulated"})


class StaleLibraryError(Exception):
    """The library was built from other sources than these: its structures may have other fields."""


class Kernels:
    """One library and its threads. A pass uses as many threads as torch is set to.

    ``rounds_rows``: rows of bf16 linears are rounded to bf16, else they stay fp32.
    """

    def __init__(self, file: Path) -> None:
        """Raises OSError for a library that can't be loaded or that the system lets nobody use, StaleLibraryError for
        one with another C interface.
        """
        self._library = _declared(_of_these_sources(ctypes.CDLL(str(file))))
        if not self._library.fr_start():
            raise OSError(f"the system refuses what {file.name} needs")
        self.path: str = self._library.fr_path().decode()
        self.rounds_rows = self.path in _ROUNDS_ROWS
        self._start_team()
        os.register_at_fork(after_in_child=self._start_team)

    def _start_team(self) -> None:
        # A fork has none of its parent's threads, and may have locks that they held: the old team is left alone.
        self._team = c_void_p(self._library.fr_new_team())

    def packed_bytes(self, kind: int, num_outputs: int, num_inputs: int) -> int:
        """Size of a packed matrix."""
        return int(self._library.fr_packed_bytes(kind, num_outputs, num_inputs))

    def pack(self, kind: int, weight: Tensor, packed: Tensor, *, first: int = 0, stride: int = 1) -> None:
        """``weight`` [out, in] into every ``stride``-th panel of ``packed`` from ``first`` on."""
        assert weight.is_contiguous()
        self._library.fr_pack(kind, weight.data_ptr(), *weight.shape, packed.data_ptr(), first, stride)

    def block_panel_bytes(self, format: int, num_inputs: int) -> int:
        """Size of a panel of blocks."""
        return int(self._library.fr_block_panel_bytes(format, num_inputs))

    def pack_blocks(
        self,
        format: int,
        rows: np.ndarray[Any, np.dtype[np.uint8]],
        num_inputs: int,
        panels: ctypes.Array[BlockPanelStruct],
        *,
        first: int = 0,
        stride: int = 1,
    ) -> None:
        """Stored ``rows`` (uint8 [out, bytes]) into every ``stride``-th half panel from ``first`` on.

        Raises ValueError for a scale that isn't finite.
        """
        assert rows.flags.c_contiguous
        if not self._library.fr_pack_blocks(format, rows.ctypes.data, len(rows), num_inputs, panels, first, stride):
            raise ValueError("a scale that isn't finite")

    def unpack_rows(self, linear: LinearStruct, ids: Tensor) -> Tensor:
        """Rows ``ids`` (int64 [n]) of a packed matrix as fp32 [n, in]."""
        rows = torch.empty(len(ids), linear.num_inputs)
        self._library.fr_unpack_rows(byref(linear), ids.contiguous().data_ptr(), len(ids), rows.data_ptr())
        return rows

    def run_linear(self, linear: LinearStruct, x: Tensor) -> Tensor:
        """fp32 [rows, in] -> fp32 [rows, out]."""
        x = x.float().contiguous()
        y = torch.empty(x.shape[0], linear.num_outputs)
        threads = torch.get_num_threads()
        self._library.fr_run_linear(self._team, threads, byref(linear), x.data_ptr(), x.shape[0], y.data_ptr())
        return y

    def forward(self, decoder: DecoderStruct, batch: PassStruct) -> None:
        """One pass; results lie where the structures point."""
        self._library.fr_forward(self._team, torch.get_num_threads(), byref(decoder), byref(batch))

    def run_linears_alone(self, decoder: DecoderStruct, num_rows: int) -> None:
        """Every linear once over rows of zeros, nothing between: what a pass would cost if weights were all of it."""
        self._library.fr_run_linears_alone(self._team, torch.get_num_threads(), byref(decoder), num_rows)


def find_kernels(wanted: str | None = None) -> Kernels | None:
    """The best built library that this CPU runs, or None: then torch does the work.

    ``wanted`` (default: the environment's FORERUN_KERNELS, else auto) names a path, ``auto`` or ``torch``. Raises
    ForerunError for a name that is unknown, not built or not runnable here.
    """
    name = wanted or os.environ.get("FORERUN_KERNELS") or "auto"
    if name == "torch":
        return None
    if name == "auto":
        return next((kernels for path in reversed(PATHS) if (kernels := _load(path))), None)
    if name not in PATHS:
        raise ForerunError(f"FORERUN_KERNELS auto, torch, {', '.join(PATHS)}", repr(name), "choose one of them")
    if (found := _load(name)) is None:
        raise ForerunError(
            f"kernels for {name}",
            "none that are built and that this CPU runs",
            "use auto, or run python -m forerun.models.native.build where a C++ compiler is there",
        )
    return found


def required_kernels(dtype: str) -> Kernels:
    """``find_kernels`` for what torch can't compute. Raises ForerunError where there are none."""
    kernels = find_kernels()
    if kernels is None and os.environ.get("FORERUN_KERNELS") == "torch":
        raise ForerunError(
            f"native kernels for dtype {dtype}", "FORERUN_KERNELS=torch", "unset FORERUN_KERNELS, or use --dtype auto"
        )
    if kernels is None:
        raise ForerunError(
            f"native kernels for dtype {dtype}",
            "none that are built and that this CPU runs",
            "use --dtype auto, or build them with python -m forerun.models.native.build",
        )
    return kernels


@functools.cache
def _load(path: str) -> Kernels | None:
    file = library_file(path)
    if not file.exists() or not _NEEDS[path] <= cpu_flags():
        return None
    try:
        return Kernels(file)
    except StaleLibraryError:
        warnings.warn(
            "expected native kernels built from these sources; found older or newer ones, which are not used; "
            "build them again: python -m forerun.models.native.build",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    except OSError:
        return None  # another machine's build, or AMX not granted: the next best path serves


def _of_these_sources(library: ctypes.CDLL) -> ctypes.CDLL:
    number = getattr(library, "fr_sources", None)
    if number is not None:
        number.restype = c_int64
    if number is None or number() != sources_number():
        raise StaleLibraryError
    return library


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    signatures: dict[str, tuple[object, list[object]]] = {
        "fr_path": (c_char_p, []),
        "fr_start": (c_int32, []),
        "fr_new_team": (c_void_p, []),
        "fr_packed_bytes": (c_int64, [c_int32, c_int32, c_int32]),
        "fr_pack": (None, [c_int32, c_void_p, c_int32, c_int32, c_void_p, c_int32, c_int32]),
        "fr_block_panel_bytes": (c_int64, [c_int32, c_int32]),
        "fr_pack_blocks": (
            c_int32,
            [c_int32, c_void_p, c_int32, c_int32, POINTER(BlockPanelStruct), c_int32, c_int32],
        ),
        "fr_unpack_rows": (None, [POINTER(LinearStruct), c_void_p, c_int32, c_void_p]),
        "fr_run_linear": (None, [c_void_p, c_int32, POINTER(LinearStruct), c_void_p, c_int32, c_void_p]),
        "fr_run_linears_alone": (None, [c_void_p, c_int32, POINTER(DecoderStruct), c_int32]),
        "fr_forward": (None, [c_void_p, c_int32, POINTER(DecoderStruct), POINTER(PassStruct)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
