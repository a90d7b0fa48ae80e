"""Measured pass costs in the user's cache directory, one file per identity."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from forerun.engine.costs.measure_passes import measure_passes
from forerun.engine.costs.pass_costs import PassCostIdentity, PassCosts
from forerun.errors import ForerunError
from forerun.models.cache_root import cache_root
from forerun.models.loading.loaded_target import LoadedTarget

# Machines change in ways that no identity shows: cooling, firmware, neighbours.
MAX_AGE_DAYS = 30.0

_ADAPTER = TypeAdapter(PassCosts)


def costs_directory() -> Path:
    """Where pass costs are kept: pass_costs under ``cache_root``."""
    return cache_root() / "pass_costs"


def find_pass_costs(loaded: LoadedTarget, kv_dtype: str = "auto", *, directory: Path | None = None) -> PassCosts | None:
    """What was measured for exactly this target, here, in the last ``MAX_AGE_DAYS`` days.

    Raises ForerunError for a damaged file.
    """
    identity = PassCostIdentity.of(loaded.target, loaded.artifact, kv_dtype)
    path = _path(identity, directory)
    if not path.is_file():
        return None
    costs = read_pass_costs(path)
    return costs if costs.identity == identity and costs.age_days <= MAX_AGE_DAYS else None


def find_or_measure_pass_costs(
    loaded: LoadedTarget, kv_dtype: str = "auto", *, directory: Path | None = None
) -> PassCosts:
    """What ``find_pass_costs`` finds, else measured now (seconds to a minute) and kept."""
    found = find_pass_costs(loaded, kv_dtype, directory=directory)
    if found is not None:
        return found
    costs = measure_pass_costs(loaded, kv_dtype)
    keep_pass_costs(costs, directory=directory)
    return costs


def measure_pass_costs(loaded: LoadedTarget, kv_dtype: str = "auto") -> PassCosts:
    """Measured now, for this target and machine; kept by ``keep_pass_costs`` alone."""
    return measure_passes(loaded.target, PassCostIdentity.of(loaded.target, loaded.artifact, kv_dtype))


def keep_pass_costs(costs: PassCosts, *, directory: Path | None = None) -> None:
    """Puts them where ``find_pass_costs`` looks. Raises ForerunError where nothing can be written."""
    write_pass_costs(costs, _path(costs.identity, directory))


def read_pass_costs(path: Path) -> PassCosts:
    """A file as ``write_pass_costs`` left it. Raises ForerunError for anything else."""
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        found = str(error).splitlines()[0]
        raise ForerunError(
            f"measured pass costs in {path}", found, "remove the file; they are measured again"
        ) from error


def write_pass_costs(costs: PassCosts, path: Path) -> None:
    """Writes or replaces the file in one step. Raises ForerunError where that is impossible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".partial-") as folder:
            aside = Path(folder) / path.name
            aside.write_bytes(_ADAPTER.dump_json(costs, indent=1))
            aside.replace(path)
    except OSError as error:
        found = error.strerror or str(error)
        raise ForerunError(f"to write {path}", found, "free space or set FORERUN_CACHE") from error


def _path(identity: PassCostIdentity, directory: Path | None) -> Path:
    return (directory or costs_directory()) / f"{identity.key}.json"
