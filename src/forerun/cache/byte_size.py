"""Sizes of memory as people write them."""

from __future__ import annotations

import re

from forerun.errors import ForerunError

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def read_bytes(text: str) -> int:
    """Bytes of a text like ``2GiB``, ``512 MB`` or ``1000000``. Raises ForerunError for anything else, 0 included."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?) ?([A-Za-z]*)", text.strip(), re.ASCII)
    if found is None or found[2] not in _UNITS or (size := int(float(found[1]) * _UNITS[found[2]])) < 1:
        units = ", ".join(unit for unit in _UNITS if unit)
        raise ForerunError(f"a size such as 2GiB (units {units})", repr(text), "write a number and a unit")
    return size


def bytes_text(size: int) -> str:
    """Three digits and a unit."""
    unit = next((unit for unit in ("GiB", "MiB", "KiB") if size >= _UNITS[unit]), None)
    if unit is None:
        return f"{size} bytes"
    value = size / _UNITS[unit]
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
