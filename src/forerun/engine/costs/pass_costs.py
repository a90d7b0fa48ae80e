"""What passes cost, with what they were measured on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata

import torch

from forerun.conditions import Artifact, of_machine
from forerun.engine.costs.cost_point import CostPoint
from forerun.engine.costs.pass_curve import PassCurve
from forerun.models.base import Target
from forerun.models.device import describe_device


@dataclass(frozen=True, slots=True)
class PassCostIdentity:
    """Everything that a pass's time depends on. ``software`` names our version and commit, and torch's."""

    artifact: Artifact
    dtype: str
    kv_dtype: str
    kernels: str
    machine: str
    threads: int
    software: str

    @classmethod
    def of(cls, target: Target, artifact: Artifact, kv_dtype: str = "auto") -> PassCostIdentity:
        """That of a loaded target, here and now, with keys and values in ``kv_dtype``."""
        device = describe_device(torch.device(target.traits.device))
        machine = of_machine()
        return cls(
            artifact,
            target.traits.dtype,
            kv_dtype,
            f"{'exact' if target.traits.is_bit_exact else 'inexact'} {target.traits.kernels}, {device.driver}",
            f"{device.count} x {device.name}",
            device.threads,
            f"forerun {metadata.version('forerun')} {machine.commit}, torch {machine.torch}",
        )

    @property
    def key(self) -> str:
        """A short name for it that no other identity has."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PassCosts:
    """Measured verify passes (logits of every row) and prefill slices (logits of the last); never empty.

    ``measured_at`` is ISO 8601 in UTC.
    """

    identity: PassCostIdentity
    measured_at: str
    passes: tuple[CostPoint, ...]
    slices: tuple[CostPoint, ...]

    @cached_property
    def pass_curve(self) -> PassCurve:
        """Seconds of a verify pass."""
        return PassCurve(self.passes)

    @cached_property
    def slice_curve(self) -> PassCurve:
        """Seconds of a slice of prefill."""
        return PassCurve(self.slices)

    @property
    def age_days(self) -> float:
        """Days since it was measured."""
        return (datetime.now(UTC) - datetime.fromisoformat(self.measured_at)).total_seconds() / 86_400
