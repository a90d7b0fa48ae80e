"""The workloads that ship with forerun: written for it, one JSONL file each under ``prompts/``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources

from forerun.errors import ForerunError
from forerun.workloads.readers.plain import PlainReader
from forerun.workloads.readers.rows import parse_rows
from forerun.workloads.workload import Workload

ORDINARY = (
    "code",
    "code_edit",
    "maths",
    "prose",
    "summary",
    "extraction",
    "tool_call",
    "question",
    "translation",
    "chinese",
    "chat",
)
CONTROL = "repeat"
NAMES = (*ORDINARY, CONTROL)


def load_workload(name: str) -> Workload:
    """The workload of that name. Raises ``ForerunError`` for an unknown name."""
    if name not in NAMES:
        raise ForerunError(f"a workload among {', '.join(NAMES)}", repr(name), "pick one of these, or pass a file")
    file = resources.files("forerun.workloads") / "prompts" / f"{name}.jsonl"
    rows = parse_rows(file.read_bytes(), f"{name}.jsonl")
    reader = PlainReader(workload=name, source="forerun")
    return Workload(name, tuple(reader.parse(row) for row in rows), is_control=name == CONTROL)


def load_workloads(names: Iterable[str] = NAMES) -> tuple[Workload, ...]:
    """Several workloads in the order asked for; all of them by default."""
    return tuple(load_workload(name) for name in names)
