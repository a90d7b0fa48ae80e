"""The plan of a sweep, from TOML and flags: what to try, on what, and how long."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from forerun.errors import ForerunError
from forerun.sweep.cells import Scalar
from forerun.sweep.statistics import MAX_HALF_WIDTH, MAX_PAIRS, MIN_PAIRS

# How long the user waits doesn't change what is measured, so a longer budget may resume a run.
_NOT_PART_OF_IDENTITY: Final = frozenset({"time_budget"})


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise ValueError(f"each value once, found {list(values)}")
    return values


Lengths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), AfterValidator(_distinct)]
Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1), AfterValidator(_distinct)]


class PlanPart(BaseModel):
    """Unknown keys are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MethodPlan(PlanPart):
    """A method to try; a bare name in the plan stands for one with its defaults. No ``n``: the default grid."""

    name: str = Field(min_length=1)
    n: Lengths | None = None
    is_tree: bool = False
    knobs: dict[str, Scalar] = Field(default_factory=dict)


class DrafterPlan(PlanPart):
    """A drafter artifact for a method; for every target unless one is named."""

    method: str = Field(min_length=1)
    artifact: str = Field(min_length=1)
    target: str | None = None
    trained_size: int | None = Field(default=None, ge=1)


class Plan(PlanPart):
    """Targets x drafters x methods x N x workloads x temperatures x concurrency, and the rules of measuring.

    ``methods`` and ``workloads`` None: all there are. ``warm_corpus`` names the prompts that fill a shared corpus
    before every trial (None: cold). ``prompts`` is a file of one's own traffic. ``time_budget`` is in seconds.
    ``is_past_end``: generate past the natural end, and label it. ``kv_dtype`` is the number type of keys and values.
    """

    targets: Names = ("smollm2-135m",)
    drafters: tuple[DrafterPlan, ...] = ()
    methods: tuple[MethodPlan, ...] | None = None
    n: Lengths | None = None
    workloads: Names | None = None
    temperatures: Annotated[tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...], Field(min_length=1),
                            AfterValidator(_distinct)] = (0.0,)  # fmt: skip
    concurrency: Lengths = (1,)
    max_tokens: int = Field(default=128, ge=2)
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**64)], ...], Field(min_length=1),
                     AfterValidator(_distinct)] = (0,)  # fmt: skip
    prompts_per_workload: int | None = Field(default=None, ge=1)
    min_pairs: int = Field(default=MIN_PAIRS, ge=MIN_PAIRS)
    max_pairs: int = Field(default=MAX_PAIRS, ge=MIN_PAIRS)
    max_half_width: float = Field(default=MAX_HALF_WIDTH, gt=0, lt=1)
    quick: bool = False
    prompts: str | None = None
    warm_corpus: str | None = None
    time_budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    is_past_end: bool = False
    kv_dtype: Literal["auto", "float32", "bfloat16", "int8"] = "auto"

    @field_validator("kv_dtype", mode="before")
    @classmethod
    def _short_names_stand_for_number_types(cls, value: Any) -> Any:
        return {"fp32": "float32", "bf16": "bfloat16"}.get(value, value) if isinstance(value, str) else value

    @field_validator("methods", mode="before")
    @classmethod
    def _names_stand_for_methods(cls, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple({"name": entry} if isinstance(entry, str) else entry for entry in value)
        return value

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Plan:
        if self.max_pairs < self.min_pairs:
            raise ValueError(f"max_pairs ({self.max_pairs}) must be at least min_pairs ({self.min_pairs})")
        if self.methods is not None:
            if not self.methods:
                raise ValueError("methods must name at least one, or be left out for all")
            _distinct(tuple(json.dumps(method.model_dump(), sort_keys=True) for method in self.methods))
        for drafter in self.drafters:
            if drafter.target is not None and drafter.target not in self.targets:
                raise ValueError(f"drafter {drafter.artifact} is for {drafter.target}, which is not among the targets")
        return self

    @property
    def hash(self) -> str:
        """Names the work: equal plans resume each other. The time budget doesn't count."""
        work = self.model_dump(mode="json", exclude=set(_NOT_PART_OF_IDENTITY))
        return hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()[:16]


def read_plan(path: Path | None = None, flags: Mapping[str, object] | None = None) -> Plan:
    """A plan from a TOML file, with flags over it; defaults for the rest. A flag that is ``None`` was not given.

    Raises ForerunError for a file that can't be read, unknown keys and values that are not allowed.
    """
    values: dict[str, object] = _read_toml(path) if path is not None else {}
    values |= {key: value for key, value in (flags or {}).items() if value is not None}
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise _in_one_line(error, f"plan {path}" if path is not None else "plan") from error


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ForerunError(f"a readable plan at {path}", error.strerror or str(error), "check the path") from error
    except (ValueError, RecursionError) as error:
        raise ForerunError(f"TOML in {path}", str(error), "correct that place") from error


def _in_one_line(error: ValidationError, where: str) -> ForerunError:
    """The first thing that is wrong: which key, what is allowed."""
    first = error.errors()[0]
    places = [str(part) for part in first["loc"]]
    key = ".".join(places)
    if first["type"] == "extra_forbidden":
        known = ", ".join(_keys_beside(places))
        return ForerunError(f"keys of a {where} among {known}", f"unknown key {key}", "remove or correct it")
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not key:
        return ForerunError(f"a {where} that agrees with itself", message, "correct one of the two")
    return ForerunError(f"a valid {key} in the {where}", f"{first['input']!r}", message)


def _keys_beside(places: Iterable[str]) -> list[str]:
    """The keys that the table at this place knows."""
    tables: dict[str, type[BaseModel]] = {"methods": MethodPlan, "drafters": DrafterPlan}
    path = list(places)
    table = tables.get(path[0], Plan) if len(path) > 1 else Plan
    return list(table.model_fields)
