"""One JSON object with given keys and values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forerun.workloads.checkers.base import Checker, CheckResult
from forerun.workloads.checkers.json_text import json_values, same_value


@dataclass(frozen=True, slots=True)
class JsonChecker(Checker):
    """The first JSON object of the output has exactly the keys of ``expected``, with those values.

    Case and spacing of strings and 5 against 5.0 are forgiven; order of lists is not. Keys in ``any_value`` must be
    there too, with any value.
    """

    expected: Mapping[str, Any] = field(hash=False)
    any_value: tuple[str, ...] = ()

    def check(self, output: str) -> CheckResult:
        """Parse, compare keys, compare values."""
        found = next((value for value in json_values(output) if isinstance(value, dict)), None)
        if found is None:
            return CheckResult(False, "no JSON object in the output")
        wanted_keys = {*self.expected, *self.any_value}
        missing, extra = sorted(wanted_keys - found.keys()), sorted(found.keys() - wanted_keys)
        if missing or extra:
            return CheckResult(False, f"missing keys {missing}, unexpected keys {extra}")
        for key, value in self.expected.items():
            if not same_value(value, found[key]):
                return CheckResult(False, f"{key} is {_short(found[key])}, {_short(value)} expected")
        return CheckResult(True, "all keys and values as expected")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
