"""Settings of a tune by target, temperature and concurrency."""

from __future__ import annotations

from dataclasses import dataclass

from forerun.report.standing import Standing
from forerun.sweep.cells import short_name
from forerun.sweep.results import TuneResult


@dataclass(frozen=True)
class Group:
    """Settings that share target, temperature and concurrency: one table, one map."""

    target: str
    temperature: float
    concurrency: int
    ordinary: tuple[Standing, ...]
    control: tuple[Standing, ...]

    @property
    def label(self) -> str:
        """``SmolLM2, T=0, 1 at a time``."""
        return f"{short_name(self.target)}, T={self.temperature:g}, {self.concurrency} at a time"

    @property
    def standings(self) -> tuple[Standing, ...]:
        """All settings, the control class last."""
        return self.ordinary + self.control


def groups(result: TuneResult) -> list[Group]:
    """The groups of a tune, in the order of its cells."""
    members: dict[tuple[str, float, int], list[Standing]] = {}
    for setting in result.settings:
        key = (setting.target, setting.temperature, setting.concurrency)
        members.setdefault(key, []).append(Standing.of(result, setting))
    return [
        Group(
            *key,
            ordinary=tuple(one for one in standings if one.setting.workload not in result.control_workloads),
            control=tuple(one for one in standings if one.setting.workload in result.control_workloads),
        )
        for key, standings in members.items()
    ]
