"""The one way in: whatever a person can name becomes a target."""

from __future__ import annotations

from pathlib import Path

import torch

from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import EXACT, INEXACT, Arithmetic
from forerun.models.catalog import CATALOG
from forerun.models.device import AS_SHIPPED, INT8, choose_device, choose_dtype
from forerun.models.loading.hub import fetch_snapshot, is_hub_id
from forerun.models.loading.load_directory import load_directory, load_directory_int8
from forerun.models.loading.load_gguf import load_gguf, load_gguf_as_shipped, load_gguf_int8
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.pull import Progress, pull


def load_target(
    source: str | Path,
    *,
    dtype: str = "auto",
    device: str = "auto",
    exact: bool = True,
    progress: Progress | None = None,
) -> LoadedTarget:
    """Loads a Hugging Face directory, a GGUF file, a hub id (``hub:org/name``) or a catalog name.

    ``dtype`` auto is bf16 where the machine has it, else fp32, and rounds no file of fp32 or fp16; ``as-shipped``
    multiplies with the blocks of a GGUF file as they are, ``int8`` rounds any file's weights to such blocks, both with
    activations in int8. Without ``exact``, torch's own kernels compute and rows have other bits beside others; the
    traits say so. Only a hub id or a catalog name that isn't in the cache touches the network. Raises ForerunError.
    """
    on = choose_device(device)
    is_as_shipped, is_int8 = dtype == AS_SHIPPED, dtype == INT8
    number_type = choose_dtype("auto" if is_as_shipped or is_int8 else dtype, on)
    asked = None if dtype == "auto" else number_type
    arithmetic = EXACT if exact else INEXACT
    if is_as_shipped or is_int8:
        _require_native(dtype, on, arithmetic)

    def from_gguf(file: Path) -> LoadedTarget:
        if is_as_shipped:
            return load_gguf_as_shipped(file, number_type)
        return load_gguf_int8(file, number_type) if is_int8 else load_gguf(file, asked, on, arithmetic)

    def from_directory(directory: Path, **origin: str) -> LoadedTarget:
        if is_as_shipped:
            raise _no_blocks(source, "a directory")
        if is_int8:
            return load_directory_int8(directory, number_type, **origin)
        return load_directory(directory, asked, on, arithmetic, **origin)

    path = Path(source).expanduser()
    if not str(source):
        raise ForerunError("a model directory, a GGUF file, a hub id or a catalog name", "an empty name", "name one")
    try:
        is_there = path.exists()
    except OSError as error:  # a name that is too long, say
        raise ForerunError("a path to a model", f"{str(path)[:80]!r} ({error.strerror})", "check the path") from error
    if is_there and path.is_dir():
        return from_directory(path.resolve())
    if is_there and path.is_file():
        _require_gguf(path)
        return from_gguf(path.resolve())
    name = str(source)
    if name in CATALOG:
        return from_gguf(pull(name, progress))
    if is_hub_id(name):
        if is_as_shipped:
            raise _no_blocks(source, "a hub id")  # before anything is fetched
        snapshot = fetch_snapshot(name)
        return from_directory(snapshot.directory, id=snapshot.id, revision=snapshot.revision)
    raise ForerunError(
        f"a model directory, a GGUF file, a hub id or a catalog name ({', '.join(CATALOG)})",
        f"{name!r}, which is none of them",
        "check the path, or write hub:ORG/NAME to ask the hub",
    )


def _require_gguf(path: Path) -> None:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        return
    if path.suffix == ".safetensors":
        raise ForerunError("a model directory", f"the single file {path}", f"give its directory, {path.parent}")
    raise ForerunError(
        f"a GGUF file at {path}", f"a file that begins with {magic!r}", "give a model directory or a GGUF file"
    )


def _require_native(dtype: str, device: torch.device, arithmetic: Arithmetic) -> None:
    if device.type != "cpu" or arithmetic is INEXACT:
        found = f"device {device}" if device.type != "cpu" else "exact=False, which is for torch's own kernels"
        raise ForerunError(f"the native CPU kernels for dtype {dtype}", found, "use --dtype auto")


def _no_blocks(source: str | Path, kind: str) -> ForerunError:
    return ForerunError(f"a GGUF file for dtype {AS_SHIPPED}", f"{str(source)!r}, {kind}", "use --dtype auto")
