"""Outputs that repeat themselves without end: kept, shown, in no verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from forerun.sweep.cells import OFF, Cell
from forerun.sweep.results import LoopingOutput
from forerun.sweep.run_directory import RunDirectory
from forerun.sweep.trials import Run

EXCERPT_LENGTH = 300


def looping_outputs(
    run: Run, directory: RunDirectory, cells: Iterable[Cell], control_workloads: Collection[str]
) -> list[LoopingOutput]:
    """Those of ordinary workloads, each prompt of a target once, with the beginning of its raw response."""
    found: dict[tuple[str, str], LoopingOutput] = {}
    for cell in cells:
        if cell.workload in control_workloads:
            continue
        for pair in run.pairs(cell):
            for outcome in pair.off.prompts:
                key = (cell.target, outcome.prompt_id)
                if outcome.is_looping and key not in found:
                    excerpt = _excerpt(directory, run.raw_file(pair), outcome.prompt_id)
                    found[key] = LoopingOutput(cell.setting, outcome.prompt_id, outcome.repetition, excerpt)
    return list(found.values())


def _excerpt(directory: RunDirectory, raw_file: str, prompt_id: str) -> str:
    rows = directory.read(raw_file)
    text = next(row["text"] for row in rows if row["candidate"] == OFF.label and row["prompt_id"] == prompt_id)
    return str(text)[:EXCERPT_LENGTH]
