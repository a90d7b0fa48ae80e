"""The conditions of a measurement: one frozen record without which a figure means nothing.

Every field is always present; what nobody wrote down is ``"undisclosed"``. Two figures may be compared only where the
fields that differ are the ones that were varied on purpose.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from forerun.errors import ForerunError

Undisclosed = Literal["undisclosed"]
UNDISCLOSED: Final = "undisclosed"

# When and how busy a run was is recorded and shown, but two runs can't share it.
OBSERVATIONS: Final = frozenset({"started_at", "ended_at", "load"})


@dataclass(frozen=True, slots=True)
class Artifact:
    """A model file as it was run. ``NO_ARTIFACT`` stands for a drafter that has none."""

    id: str = UNDISCLOSED
    revision: str = UNDISCLOSED
    hash: str = UNDISCLOSED
    quantisation: str = UNDISCLOSED


NO_ARTIFACT: Final = Artifact("none", "none", "none", "none")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Everything that together defines a result.

    ``flags`` are the engine's resolved settings as sorted (name, value) pairs; ``started_at`` and ``ended_at`` are ISO
    8601 in UTC; ``load`` is the one-minute load average when the run began.
    """

    target: Artifact = Artifact()
    drafter: Artifact = Artifact()
    engine: str = UNDISCLOSED
    commit: str = UNDISCLOSED
    flags: tuple[tuple[str, str], ...] | Undisclosed = UNDISCLOSED
    method: str = UNDISCLOSED
    num_speculative_tokens: int | Undisclosed = UNDISCLOSED
    context: int | Undisclosed = UNDISCLOSED
    output_length_rule: str = UNDISCLOSED
    kv_dtype: str = UNDISCLOSED
    sampling: str = UNDISCLOSED
    concurrency: int | Undisclosed = UNDISCLOSED
    batch: int | Undisclosed = UNDISCLOSED
    graphs: str = UNDISCLOSED
    cache_state: str = UNDISCLOSED
    task: str = UNDISCLOSED
    prompt_set_hash: str = UNDISCLOSED
    prompt_set_size: int | Undisclosed = UNDISCLOSED
    harness: str = UNDISCLOSED
    device: str = UNDISCLOSED
    device_count: int | Undisclosed = UNDISCLOSED
    driver: str = UNDISCLOSED
    os: str = UNDISCLOSED
    torch: str = UNDISCLOSED
    transformers: str = UNDISCLOSED
    threads: int | Undisclosed = UNDISCLOSED
    started_at: str = UNDISCLOSED
    ended_at: str = UNDISCLOSED
    load: float | Undisclosed = UNDISCLOSED

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """All fields, those of an artifact dotted: ``target.id``, ..., ``load``."""
        return tuple(name for name, _ in cls().items())

    def items(self) -> list[tuple[str, Any]]:
        """(dotted field, value) in the order of the fields."""
        items: list[tuple[str, Any]] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Artifact):
                items += [(f"{field.name}.{part.name}", getattr(value, part.name)) for part in fields(value)]
            else:
                items.append((field.name, value))
        return items

    def undisclosed_fields(self) -> list[str]:
        """Dotted names of the fields that nobody wrote down."""
        return [name for name, value in self.items() if value == UNDISCLOSED]

    def ended(self, at: datetime | None = None) -> Conditions:
        """The same with the end time filled in (now, unless given)."""
        return replace(self, ended_at=_utc(at))

    def to_json(self) -> str:
        """One JSON object with every field."""
        return json.dumps(asdict(self), sort_keys=False)

    @classmethod
    def from_json(cls, text: str) -> Conditions:
        """Reads ``to_json`` back. Raises ForerunError where a field is missing, unknown or of the wrong type."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ForerunError("conditions as a JSON object", f"text that is not JSON ({error})", _REWRITE) from error
        if not isinstance(data, dict):
            raise ForerunError("conditions as a JSON object", f"a JSON {type(data).__name__}", _REWRITE)
        _require_fields("conditions", data, Conditions)
        for name in ("target", "drafter"):
            _require_fields(name, data[name], Artifact)
        try:
            return _ADAPTER.validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ForerunError(f"a valid value for conditions.{where}", repr(first["input"]), first["msg"]) from error


_ADAPTER = TypeAdapter(Conditions)
_REWRITE = "write it with Conditions.to_json"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two conditions differ, and whether a comparison may still be made."""

    field: str
    left: Any
    right: Any
    is_allowed: bool

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.left)} against {_shown(self.right)}"


def differences(a: Conditions, b: Conditions, axes: Collection[str] = ()) -> list[Difference]:
    """Every field that differs. Axes name fields (``method``, ``drafter.id``, or ``drafter`` for all of it) that may.

    Times and load differ between any two runs: listed, always allowed. Raises ForerunError for an unknown axis.
    """
    names = Conditions.field_names()
    known = set(names) | {name.split(".")[0] for name in names}
    for axis in axes:
        if axis not in known:
            raise ForerunError("a field of Conditions as axis", repr(axis), f"choose among {', '.join(sorted(known))}")
    allowed = set(axes) | OBSERVATIONS
    return [
        Difference(name, left, right, name in allowed or name.split(".")[0] in allowed)
        for (name, left), (_, right) in zip(a.items(), b.items(), strict=True)
        if left != right
    ]


def require_comparable(a: Conditions, b: Conditions, axes: Collection[str] = ()) -> list[Difference]:
    """The differences, if all are allowed. Raises ForerunError that names the fields which must not differ."""
    found = differences(a, b, axes)
    conflicts = [difference for difference in found if not difference.is_allowed]
    if conflicts:
        varied = ", ".join(sorted(axes)) or "none"
        raise ForerunError(
            f"two results that differ only in what was varied ({varied})",
            "; ".join(str(difference) for difference in conflicts),
            "measure both under the same conditions, or make these fields axes of the plan",
        )
    return found


def of_machine(at: datetime | None = None) -> Conditions:
    """What the machine knows by itself: versions, threads, load, the commit of a checkout. The rest is undisclosed.

    Device and driver are filled in by whoever chose the device.
    """
    import torch

    return Conditions(
        commit=_commit(),
        os=f"{platform.system()} {platform.release()} {platform.machine()}",
        torch=_version("torch"),
        transformers=_version("transformers"),
        threads=torch.get_num_threads(),
        started_at=_utc(at),
        load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else UNDISCLOSED,
    )


def sorted_flags(flags: Iterable[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    """Resolved flags in the form that ``Conditions.flags`` holds: text, sorted by name."""
    return tuple(sorted((name, str(value)) for name, value in flags))


def _utc(at: datetime | None) -> str:
    return (at or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return UNDISCLOSED


def _commit() -> str:
    """The checkout's commit, ``-dirty`` with uncommitted changes; undisclosed outside a checkout of forerun."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return UNDISCLOSED
    try:
        git = ["git", "-C", str(root)]
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True)
        status = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return UNDISCLOSED
    return head.stdout.strip() + ("-dirty" if status.stdout.strip() else "")


def _require_fields(name: str, data: Any, kind: type[Conditions] | type[Artifact]) -> None:
    expected = {field.name for field in fields(kind)}
    found = set(data) if isinstance(data, dict) else set()
    if found != expected:
        wrong = [f"without {key}" for key in sorted(expected - found)]
        wrong += [f"with {key}" for key in sorted(found - expected)]
        raise ForerunError(f"exactly the fields of {kind.__name__} in {name}", ", ".join(wrong), _REWRITE)


def _shown(value: Any) -> str:
    return repr(value) if value == "" else str(value)
