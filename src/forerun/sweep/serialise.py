"""Frozen results as JSON and back, checked on the way in."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from forerun.errors import ForerunError

T = TypeVar("T")


def to_json(value: Any) -> str:
    """One JSON text of a frozen dataclass and everything in it."""
    kind: Any = type(value)
    return _adapter(kind).dump_json(value).decode()


def from_json(kind: type[T], text: str | bytes) -> T:
    """The value that ``to_json`` wrote. Raises ForerunError where the text is not one."""
    key: Any = kind
    try:
        value: T = _adapter(key).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the text"
        raise ForerunError(f"{kind.__name__} as JSON", f"{where}: {first['msg']}", "run the sweep again") from error
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
