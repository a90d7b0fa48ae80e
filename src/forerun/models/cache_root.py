"""Where forerun keeps what it fetched and measured."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """Everything lies beneath it: $FORERUN_CACHE, else forerun under $XDG_CACHE_HOME or ~/.cache."""
    return _own() or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forerun"


def cache_directory() -> Path:
    """Where models are kept: $FORERUN_CACHE itself, else models under ``cache_root``."""
    return _own() or cache_root() / "models"


def _own() -> Path | None:
    own = os.environ.get("FORERUN_CACHE")
    return Path(own) if own else None
