"""``policy.json``: what to run where, as the sweep found it; ``serve`` and the exports obey it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from forerun.conditions import Conditions
from forerun.errors import ForerunError
from forerun.sweep.cells import Candidate, Cell, Scalar
from forerun.sweep.files import replace_file
from forerun.sweep.results import Interval, TuneResult, WorkloadVerdict

FORMAT: Final = "forerun-policy"


class PolicyPart(BaseModel):
    """Unknown keys are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PolicyInterval(PolicyPart):
    """The expected ratio's interval and what it rests on."""

    low: float = Field(gt=0)
    high: float = Field(gt=0)
    num_pairs: int = Field(ge=1)
    confidence: float = Field(gt=0, lt=1)

    @classmethod
    def of(cls, interval: Interval) -> PolicyInterval:
        """An interval as a policy holds it."""
        return cls(low=interval.low, high=interval.high, num_pairs=interval.num_pairs, confidence=interval.confidence)


class PolicyRule(PolicyPart):
    """What to run for a target's workload at a temperature and concurrency, and under which conditions that holds.

    ``off`` promises no ratio.
    """

    target: str
    workload: str
    temperature: float = Field(ge=0)
    concurrency: int = Field(ge=1)
    method: str
    num_speculative_tokens: int = Field(ge=0)
    is_tree: bool = False
    knobs: dict[str, Scalar] = Field(default_factory=dict)
    drafter: str = ""
    expected_ratio: float | None = Field(default=None, gt=0)
    interval: PolicyInterval | None = None
    conditions: Conditions

    @field_validator("conditions", mode="before")
    @classmethod
    def _every_condition_is_there(cls, value: Any) -> Any:
        return value if isinstance(value, Conditions) else Conditions.from_json(json.dumps(value))

    @model_validator(mode="after")
    def _only_drafting_promises(self) -> PolicyRule:
        is_off = self.method == "off"
        if (self.num_speculative_tokens == 0) != is_off:
            raise ValueError(f"N = {self.num_speculative_tokens} does not go with method {self.method}")
        if (self.expected_ratio is None) != is_off or (self.interval is None) != is_off:
            raise ValueError(f"{self.method} must {'not ' if is_off else ''}come with expected_ratio and interval")
        return self

    @property
    def candidate(self) -> Candidate:
        """The candidate to run."""
        knobs = tuple(sorted(self.knobs.items()))
        return Candidate(self.method, self.num_speculative_tokens, self.is_tree, knobs, self.drafter)


class Policy(PolicyPart):
    """All rules of one sweep."""

    format: Literal["forerun-policy"] = FORMAT
    version: Literal[1] = 1
    run_id: str
    rules: tuple[PolicyRule, ...]

    @model_validator(mode="after")
    def _one_rule_per_setting(self) -> Policy:
        settings = [(rule.target, rule.workload, rule.temperature, rule.concurrency) for rule in self.rules]
        if len(set(settings)) < len(settings):
            raise ValueError("two rules for one setting")
        return self

    @classmethod
    def of(cls, tune: TuneResult) -> Policy:
        """The verdicts of a tune as rules."""
        return cls(run_id=tune.run_id, rules=tuple(_rule(verdict, tune) for verdict in tune.verdicts))

    def rule_for(
        self, workload: str, concurrency: int, *, temperature: float = 0.0, target: str | None = None
    ) -> PolicyRule | None:
        """The rule of a workload measured nearest to this concurrency, then temperature; ``None`` if there is none."""
        fitting = [rule for rule in self.rules if rule.workload == workload and target in (None, rule.target)]
        return min(
            fitting,
            key=lambda rule: (abs(rule.concurrency - concurrency), abs(rule.temperature - temperature)),
            default=None,
        )


def write_policy(path: Path, policy: Policy) -> None:
    """Writes or replaces a policy in one step. Raises ForerunError if it can't be written."""
    replace_file(path, policy.model_dump_json(indent=2) + "\n")


def read_policy(path: Path) -> Policy:
    """Reads and checks a policy. Raises ForerunError if it is missing, no JSON, or holds what it may not."""
    try:
        return Policy.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ForerunError(f"a policy at {path}", error.strerror or str(error), "run forerun tune first") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ForerunError(f"JSON in {path}", str(error), "run forerun tune again") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the policy"
        raise ForerunError(
            f"a forerun policy in {path}", f"{where}: {first['msg']}", "run forerun tune again"
        ) from error


def _rule(verdict: WorkloadVerdict, tune: TuneResult) -> PolicyRule:
    setting, pick, interval = verdict.setting, verdict.pick, verdict.interval
    measured = tune.find(Cell.of(setting, pick))
    return PolicyRule(
        target=setting.target,
        workload=setting.workload,
        temperature=setting.temperature,
        concurrency=setting.concurrency,
        method=pick.method,
        num_speculative_tokens=pick.num_speculative_tokens,
        is_tree=pick.is_tree,
        knobs=dict(pick.knobs),
        drafter=pick.drafter,
        expected_ratio=interval.median if interval is not None else None,
        interval=PolicyInterval.of(interval) if interval is not None else None,
        conditions=(measured.conditions if measured is not None else None) or tune.conditions,
    )
