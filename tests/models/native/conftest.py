from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from forerun.models.native.kernels import Kernels
from support.kernel_paths import NATIVE_PATHS, kernels_of


@pytest.fixture(scope="session", params=NATIVE_PATHS)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """Every kernel library that this machine can try, AMX with emulated tiles included."""
    cache = request.config.cache
    assert cache is not None
    return kernels_of(request.param, Path(cache.mkdir("native")))


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
