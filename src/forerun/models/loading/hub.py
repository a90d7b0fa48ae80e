"""Models from the Hugging Face hub, only when a hub id is named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from forerun.errors import ForerunError

_PREFIX = "hub:"
_ID = re.compile(r"[\w.-]+/[\w.-]+")
_WANTED = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A fetched revision: its id, its commit and where it lies."""

    id: str
    revision: str
    directory: Path


def is_hub_id(name: str) -> bool:
    """``hub:org/name``. A bare ``org/name`` is none: it may be a mistyped path, and nobody asked for a hub."""
    return name.startswith(_PREFIX) and _ID.fullmatch(name.removeprefix(_PREFIX)) is not None


def fetch_snapshot(name: str) -> Snapshot:
    """Downloads what loading needs, or finds it in the hub's own cache. Raises ForerunError where neither works."""
    from huggingface_hub import snapshot_download

    id = name.removeprefix(_PREFIX)
    try:
        directory = Path(snapshot_download(id, allow_patterns=_WANTED))
    except Exception as error:  # the hub's client raises its own errors and those of its HTTP library
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ForerunError(
            f"model {id!r} on the hub or in its cache", reason[0], "check the name and the network, or give a directory"
        ) from error
    return Snapshot(id, directory.name, directory)
