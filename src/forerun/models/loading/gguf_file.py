"""A GGUF file: its metadata by key, its tensors dequantised by the ``gguf`` library."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import gguf
import torch
from torch import Tensor

from forerun.errors import ForerunError


class GGUFFile:
    """Opened once; tensors are read from the mapped file when asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = gguf.GGUFReader(path)
        except FileNotFoundError as error:
            raise ForerunError(f"a GGUF file at {path}", "no such file", "check the path") from error
        except (ValueError, IndexError, KeyError, OverflowError, UnicodeDecodeError, MemoryError) as error:
            raise self._damaged(str(error)) from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}

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
        stated = self.get("general.file_type")
        try:
            return str(gguf.LlamaFileType(stated).name).removeprefix("MOSTLY_").removeprefix("ALL_")
        except ValueError:
            types = [str(tensor.tensor_type.name) for tensor in self._reader.tensors]
            return max(sorted(set(types)), key=types.count)

    def get(self, key: str, default: Any = None) -> Any:
        """A metadata value as plain Python, or ``default``."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def require(self, key: str) -> Any:
        """A metadata value that must be there. Raises ForerunError otherwise."""
        value = self.get(key)
        if value is None:
            raise ForerunError(f"metadata {key!r} in {self.path}", "none", "convert the model again")
        return value

    def shape(self, name: str) -> list[int]:
        """Shape in torch's order, outermost first. Raises ForerunError for an absent tensor."""
        if name not in self._tensors:
            raise ForerunError(f"tensor {name!r} in {self.path}", "none", "convert the model again")
        return [int(size) for size in reversed(self._tensors[name].shape)]

    def read(self, name: str) -> Tensor:
        """The tensor dequantised to fp32. Raises ForerunError for a type that ``gguf`` can't read."""
        tensor = self._tensors[name]
        try:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise ForerunError(
                f"tensors of a type that gguf {version('gguf')} dequantises",
                f"{tensor.tensor_type.name} in {name} of {self.path}",
                "use another quantisation of the model",
            ) from error
        return torch.tensor(values, dtype=torch.float32).reshape(self.shape(name))

    def _damaged(self, found: str) -> ForerunError:
        return ForerunError(f"a whole GGUF file at {self.path}", found or "damaged content", "fetch the file again")
