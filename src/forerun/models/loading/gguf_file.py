"""A GGUF file: metadata by key, tensors dequantised by the ``gguf`` library.

The header is read here (format: docs/gguf.md of the ggml project, versions 2 and 3), because the library's own reader
takes seconds per hundred thousand tokens of vocabulary.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor

from forerun.errors import ForerunError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_NUMBER_TYPES = {"ALL_F32": torch.float32, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
# The library takes sixteen rows at a time; one long row of many blocks is several times faster and still fits caches.
_VALUES_AT_ONCE = 1 << 18
ByteArray = np.ndarray[Any, np.dtype[np.uint8]]


class _DamageError(Exception):
    """What is wrong with the bytes."""


@dataclass(frozen=True, slots=True)
class _TensorInfo:
    shape: tuple[int, ...]  # torch's order, outermost first
    kind: gguf.GGMLQuantizationType
    start: int
    num_bytes: int


class _Header:
    """Reads values one after another; every read is checked against the end of the file."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def scalar(self, code: str) -> Any:
        size = struct.calcsize(f"<{code}")
        self._require(size)
        (value,) = struct.unpack_from(f"<{code}", self._data, self.at)
        self.at += size
        return value

    def string(self) -> str:
        size = self.scalar("Q")
        self._require(size)
        self.at += size
        return bytes(self._data[self.at - size : self.at]).decode("utf-8", errors="surrogateescape")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise _DamageError(f"unknown metadata type {kind}")
        return self.scalar(_SCALARS[kind])

    def _array(self) -> list[Any]:
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind not in _SCALARS:
            self._require(count)  # every element takes a byte at least
            return [self.value(kind) for _ in range(count)]
        code = _SCALARS[kind]
        size = count * struct.calcsize(f"<{code}")
        self._require(size)
        self.at += size
        return list(struct.unpack_from(f"<{count}{code}", self._data, self.at - size))

    def _require(self, num_bytes: int) -> None:
        if num_bytes > len(self._data) - self.at:
            raise _DamageError(f"a file that ends after {len(self._data)} bytes, within its header")


class GGUFFile:
    """Opened once; tensors are read from the mapped file when asked for."""

    def __init__(self, path: Path) -> None:
        """Raises ForerunError for a file that is missing, damaged, truncated or of another format."""
        self.path = path
        if not path.is_file():
            raise ForerunError(f"a GGUF file at {path}", "no such file", "check the path")
        if path.stat().st_size == 0:
            raise self._refused("an empty file")
        self._bytes: ByteArray = np.memmap(path, mode="r", dtype=np.uint8)
        try:
            self._metadata, self._tensors = _read_header(_Header(memoryview(self._bytes.view(np.ndarray).data)))
        except _DamageError as error:
            raise self._refused(str(error)) from error
        end = max((info.start + info.num_bytes for info in self._tensors.values()), default=0)
        if end > len(self._bytes):
            raise self._refused(f"{len(self._bytes)} bytes of {end}")

    @property
    def architecture(self) -> str:
        """``general.architecture``."""
        return str(self.require("general.architecture"))

    @property
    def tensor_names(self) -> frozenset[str]:
        """Names as stored."""
        return frozenset(self._tensors)

    @property
    def quantisation(self) -> str:
        """The file type that its maker stated, such as Q4_K_M; otherwise the type of most tensors."""
        try:
            return str(gguf.LlamaFileType(self.get("general.file_type")).name).removeprefix("MOSTLY_")
        except ValueError:
            kinds = [str(info.kind.name) for info in self._tensors.values()]
            return max(sorted(set(kinds)), key=kinds.count)

    @property
    def number_type(self) -> torch.dtype | None:
        """What a file without blocks is stored as: fp32, fp16 or bf16."""
        return _NUMBER_TYPES.get(self.quantisation)

    def get(self, key: str, default: Any = None) -> Any:
        """A metadata value as plain Python, or ``default``."""
        return self._metadata.get(key, default)

    def require(self, key: str) -> Any:
        """A metadata value that must be there. Raises ForerunError otherwise."""
        if key not in self._metadata:
            raise ForerunError(f"metadata {key!r} in {self.path}", "none", "convert the model again")
        return self._metadata[key]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape in torch's order, outermost first. Raises ForerunError for an absent tensor."""
        if name not in self._tensors:
            raise ForerunError(f"tensor {name!r} in {self.path}", "none", "convert the model again")
        return self._tensors[name].shape

    def read(self, name: str) -> Tensor:
        """The tensor dequantised to fp32. Raises ForerunError for a type that ``gguf`` can't read."""
        info = self._tensors[name]
        out = torch.empty(prod(info.shape), dtype=torch.float32)
        block, size = gguf.GGML_QUANT_SIZES[info.kind]
        blocks_at_once = max(1, _VALUES_AT_ONCE // block)
        for first in range(0, len(out) // block, blocks_at_once):
            start, end = info.start + first * size, info.start + (first + blocks_at_once) * size
            stored = self._bytes[start : min(end, info.start + info.num_bytes)].view(np.ndarray)
            values = self._dequantise(name, stored.reshape(1, -1), info.kind)
            out[first * block : (first + blocks_at_once) * block] = torch.from_numpy(values[0])
        return out.view(info.shape)

    def stored(self, name: str) -> tuple[gguf.GGMLQuantizationType, ByteArray]:
        """The type and the bytes of a tensor as they lie in the file, [rows, bytes of a row]."""
        info = self._tensors[name]
        data = self._bytes[info.start : info.start + info.num_bytes].view(np.ndarray)
        return info.kind, data.reshape(prod(info.shape[:-1]), -1)

    def _dequantise(self, name: str, stored: np.ndarray[Any, Any], kind: gguf.GGMLQuantizationType) -> Any:
        try:
            return np.asarray(gguf.dequantize(stored, kind), dtype=np.float32).copy()
        except NotImplementedError as error:
            raise ForerunError(
                f"tensors of a type that gguf {version('gguf')} dequantises",
                f"{kind.name} in {name} of {self.path}",
                "use another quantisation of the model",
            ) from error

    def _refused(self, found: str) -> ForerunError:
        return ForerunError(f"a whole GGUF file at {self.path}", found, "fetch the file again")


def _read_header(header: _Header) -> tuple[dict[str, Any], dict[str, _TensorInfo]]:
    magic = struct.pack("<I", header.scalar("I"))
    if magic != _MAGIC:
        raise _DamageError(f"a file that begins with {magic!r}")
    found = header.scalar("I")
    if found not in _VERSIONS:
        raise _DamageError(f"format version {found} (or the bytes of a big-endian machine)")
    num_tensors, num_values = header.scalar("Q"), header.scalar("Q")
    metadata: dict[str, Any] = {}
    for _ in range(num_values):
        key = header.string()
        metadata[key] = header.value(header.scalar("I"))
    infos = [_read_tensor_info(header) for _ in range(num_tensors)]
    alignment = int(metadata.get("general.alignment", _DEFAULT_ALIGNMENT))
    if alignment < 1:
        raise _DamageError(f"alignment {alignment}")
    begin = -(-header.at // alignment) * alignment
    tensors = {name: place(begin) for name, place in infos}
    if len(tensors) != num_tensors:
        raise _DamageError("two tensors of one name")
    return metadata, tensors


def _read_tensor_info(header: _Header) -> tuple[str, Callable[[int], _TensorInfo]]:
    """The name, and the place once it is known where tensors begin."""
    name, num_dimensions = header.string(), header.scalar("I")
    if num_dimensions > 8:
        raise _DamageError(f"{num_dimensions} dimensions in {name!r}")
    shape = tuple(header.scalar("Q") for _ in range(num_dimensions))[::-1]
    code, offset = header.scalar("I"), header.scalar("Q")
    try:
        kind = gguf.GGMLQuantizationType(code)
    except ValueError as error:
        raise _DamageError(f"tensor type {code}, unknown to gguf {version('gguf')}") from error
    block, size = gguf.GGML_QUANT_SIZES[kind]
    if not shape or not prod(shape) or shape[-1] % block:
        raise _DamageError(f"shape {list(shape)} of {name!r}, whose rows are stored in blocks of {block}")
    return name, lambda begin: _TensorInfo(shape, kind, begin + offset, prod(shape) // block * size)
