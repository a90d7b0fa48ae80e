"""The one way in: whatever a person can name becomes a target."""

from __future__ import annotations

from pathlib import Path

import torch

from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import EXACT, INEXACT, Arithmetic
from forerun.models.catalog import CATALOG
from forerun.models.device import choose_device, choose_dtype
from forerun.models.loading.hub import fetch_snapshot, is_hub_id
from forerun.models.loading.load_directory import load_directory
from forerun.models.loading.load_gguf import load_gguf
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

    ``dtype`` auto is bf16 where the machine computes with it, else fp32. Without ``exact``, torch's own kernels compute
    and rows have other bits beside other rows; the traits say so. Only a hub id or a catalog name that isn't
    in the cache touches the network. Raises ForerunError for everything that can't be loaded.
    """
    on = choose_device(device)
    number_type = choose_dtype(dtype, on)
    arithmetic = EXACT if exact else INEXACT
    path = Path(source).expanduser()
    if not str(source):
        raise ForerunError("a model directory, a GGUF file, a hub id or a catalog name", "an empty name", "name one")
    try:
        is_there = path.exists()
    except OSError as error:  # a name that is too long, say
        raise ForerunError("a path to a model", f"{str(path)[:80]!r} ({error.strerror})", "check the path") from error
    if is_there and path.is_dir():
        return load_directory(path.resolve(), number_type, on, arithmetic)
    if is_there and path.is_file():
        return _load_file(path.resolve(), number_type, on, arithmetic)
    name = str(source)
    if name in CATALOG:
        return load_gguf(pull(name, progress), number_type, on, arithmetic)
    if is_hub_id(name):
        snapshot = fetch_snapshot(name)
        return load_directory(
            snapshot.directory, number_type, on, arithmetic, id=snapshot.id, revision=snapshot.revision
        )
    raise ForerunError(
        f"a model directory, a GGUF file, a hub id or a catalog name ({', '.join(CATALOG)})",
        f"{name!r}, which is none of them",
        "check the path, or write hub:ORG/NAME to ask the hub",
    )


def _load_file(path: Path, dtype: torch.dtype, device: torch.device, arithmetic: Arithmetic) -> LoadedTarget:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        return load_gguf(path, dtype, device, arithmetic)
    if path.suffix == ".safetensors":
        raise ForerunError("a model directory", f"the single file {path}", f"give its directory, {path.parent}")
    raise ForerunError(
        f"a GGUF file at {path}", f"a file that begins with {magic!r}", "give a model directory or a GGUF file"
    )
