from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from forerun.models.decoder import Decoder
from support.tiny_models import BY_NAME, load


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Decoder]:
    """A lean decoder by the name of its tiny model and number type, built once a session."""
    saved: dict[str, Path] = {}
    built: dict[tuple[str, torch.dtype], Decoder] = {}

    def get(name: str, dtype: torch.dtype = torch.float32) -> Decoder:
        if name not in saved:
            saved[name] = tmp_path_factory.mktemp(name)
            BY_NAME[name].save(saved[name])
        if (name, dtype) not in built:
            built[name, dtype] = load(saved[name], dtype)
        return built[name, dtype]

    return get
