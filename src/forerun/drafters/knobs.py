"""A method's knobs: which there are, and how flags, TOML or Python values become its configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from forerun.errors import ForerunError

Config = TypeVar("Config")


@dataclass(frozen=True, slots=True)
class Knob:
    """One field of a method's configuration, and in a phrase what it does."""

    name: str
    default: str | int | float | bool
    summary: str


def knobs_of(config: type[Any]) -> tuple[Knob, ...]:
    """Every knob of a configuration, in order; its phrase is the first annotation of the field."""
    hints, defaults = get_type_hints(config, include_extras=True), config()
    names = [field.name for field in dataclasses.fields(config)]
    return tuple(Knob(name, getattr(defaults, name), hints[name].__metadata__[0]) for name in names)


def read_knobs(method: str, config: type[Config], knobs: Mapping[str, object]) -> Config:
    """The configuration that ``knobs`` describe; text from flags is read as the knob's own type.

    Raises ``ForerunError`` for a knob that the method does not have (naming those it has) and for a value of another
    type; the configuration itself refuses values out of range.
    """
    hints = get_type_hints(config)
    names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in knobs.items():
        if name not in names:
            known = ", ".join(names) or "none"
            raise ForerunError(f"a knob of {method} ({known})", f"{name}", "drop it or correct its name")
        try:
            values[name] = TypeAdapter(hints[name]).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ForerunError(
                f"a value for {method}'s knob {name}", f"{value!r} ({reason})", "correct the value"
            ) from None
    return config(**values)
