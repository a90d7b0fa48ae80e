"""The part of JSON Schema that tool definitions use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def schema_fault(schema: Mapping[str, Any], value: Any, where: str = "arguments") -> str | None:
    """What is wrong with ``value`` under ``schema``, or ``None``.

    Checked: type, enum, const, required, properties, additionalProperties, items, lengths, bounds, pattern, anyOf and
    oneOf (any match). Other keywords, ``$ref`` among them, are not checked.
    """
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices and all(schema_fault(choice, value, where) for choice in choices):
        return f"{where} fits none of the allowed forms"
    wanted = schema.get("type")
    if wanted and not any(_is_type(name, value) for name in ([wanted] if isinstance(wanted, str) else wanted)):
        return f"{where} is {value!r}, type {wanted} expected"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is {value!r}, one of {schema['enum']} expected"
    if "const" in schema and value != schema["const"]:
        return f"{where} is {value!r}, {schema['const']!r} expected"
    if isinstance(value, dict):
        return _object_fault(schema, value, where)
    if isinstance(value, list):
        return _list_fault(schema, value, where)
    if isinstance(value, str):
        return _string_fault(schema, value, where)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number_fault(schema, value, where)
    return None


def _is_type(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, (object,)))


def _object_fault(schema: Mapping[str, Any], value: dict[str, Any], where: str) -> str | None:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            return f"{where} lacks {key!r}"
    for key, member in value.items():
        rule = properties.get(key, schema.get("additionalProperties", True))
        if rule is False:
            return f"{where} has an unknown {key!r}"
        if isinstance(rule, Mapping) and (fault := schema_fault(rule, member, f"{where}.{key}")):
            return fault
    return None


def _list_fault(schema: Mapping[str, Any], value: list[Any], where: str) -> str | None:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{where} has {len(value)} items"
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, member in enumerate(value):
            if fault := schema_fault(items, member, f"{where}[{index}]"):
                return fault
    return None


def _string_fault(schema: Mapping[str, Any], value: str, where: str) -> str | None:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return f"{where} has {len(value)} characters"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{where} is {value!r}, pattern {schema['pattern']!r} expected"
    return None


def _number_fault(schema: Mapping[str, Any], value: float, where: str) -> str | None:
    is_low = value < schema.get("minimum", value) or value <= schema.get("exclusiveMinimum", value - 1)
    is_high = value > schema.get("maximum", value) or value >= schema.get("exclusiveMaximum", value + 1)
    return f"{where} is {value}, out of bounds" if is_low or is_high else None
