"""Under which conditions all this holds. A figure without them means nothing."""

from __future__ import annotations

from typing import Any

from forerun.conditions import OBSERVATIONS, UNDISCLOSED, differences
from forerun.report.markup import Child, Html, details, paragraph, section, table, tag
from forerun.sweep.results import TuneResult


def render(result: TuneResult) -> Html:
    """All shared fields, the undisclosed ones by name, what differs between cells, and the plan."""
    missing = result.conditions.undisclosed_fields()
    varied = _varied(result)
    undisclosed = [name for name in missing if name not in varied]
    known = (
        f"Nobody wrote down: {', '.join(undisclosed)}." if undisclosed else "Every field that all cells share is known."
    )
    return section(
        "conditions",
        "Conditions",
        paragraph(
            "These figures hold for this machine, these versions and these prompts. They are no forecast for other "
            f"hardware, concurrency or traffic. {known}"
        ),
        table(
            "What all cells share",
            ["Field", "Value"],
            [
                [_words(name), _value(value, "varies" if name in varied else "")]
                for name, value in result.conditions.items()
            ],
            num_texts=2,
            class_="conditions",
        ),
        table(
            "What differs between cells",
            ["Field", "Values"],
            [[_words(name), "; ".join(values)] for name, values in varied.items()],
            num_texts=2,
            class_="conditions",
        )
        if varied
        else None,
        details("The plan", tag("pre", result.plan)),
        paragraph(f"Run {result.run_id}, plan {result.plan_hash}.", class_="note"),
    )


def _varied(result: TuneResult) -> dict[str, list[str]]:
    """Fields in which cells depart from the shared conditions, with all the values they take."""
    found: dict[str, dict[str, None]] = {}
    for cell in result.cells:
        if cell.conditions is None:
            continue
        for difference in differences(result.conditions, cell.conditions):
            if difference.field not in OBSERVATIONS:
                found.setdefault(difference.field, {})[_shown(difference.right)] = None
    return {name: list(values) for name, values in found.items()}


def _words(name: str) -> str:
    return name.replace(".", ": ").replace("_", " ")


def _value(value: Any, instead: str) -> Child:
    if value == UNDISCLOSED:
        return tag("span", instead or UNDISCLOSED, class_="undisclosed")
    return _shown(value) + (", varies" if instead else "")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{name}={setting}" for name, setting in value) or "none"
    return str(value)
