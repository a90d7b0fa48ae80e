"""JSON inside model output: bare, in a code fence, or after some words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def json_values(text: str) -> Iterator[Any]:
    """Every outermost JSON object or list in ``text``, in order; what doesn't parse is passed over.

    A value that the end of the text cuts off ends the search: its inner objects are not what was asked for.
    """
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        if text[position] not in "{[":
            position += 1
            continue
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
                return
            position += 1
            continue
        except RecursionError:
            return
        yield value


def same_value(expected: Any, found: Any) -> bool:
    """Equality that forgives what no reader minds: case and spacing of strings, 5 and 5.0. Lists keep their order."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return abs(expected - found) <= 1e-9 * max(1.0, abs(expected))
    if isinstance(expected, str) and isinstance(found, str):
        return " ".join(expected.split()).casefold() == " ".join(found.split()).casefold()
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same_value, expected, found))
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same_value(expected[key], found[key]) for key in expected)
    return expected is None and found is None
