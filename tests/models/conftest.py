from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.tiny_models import BY_NAME, load

from forerun.models.decoder import Decoder


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Decoder]:
    """A lean decoder by the name of its tiny model, built once a session."""
    built: dict[str, Decoder] = {}

    def get(name: str) -> Decoder:
        if name not in built:
            directory: Path = tmp_path_factory.mktemp(name)
            BY_NAME[name].save(directory)
            built[name] = load(directory)
        return built[name]

    return get
