"""``forerun methods``: the dependency table, every method's knobs, and the kernels of this machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from forerun.drafters.method import Method


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of ``forerun methods``."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    """Prints every registered method with its structure and its knobs, and what computes passes here."""
    from forerun.drafters.registry import METHODS

    if args.json:
        json.dump({name: _plain(method) for name, method in METHODS.items()}, sys.stdout, indent=2)
        print()
        return 0
    from forerun.cli.terminal import Terminal

    terminal = Terminal()
    terminal.print(_structure(METHODS))
    terminal.print(_knobs(METHODS))
    terminal.print(f"On this CPU passes are computed by: {_kernels()}.")
    return 0


def _structure(methods: Mapping[str, Method]) -> Table:
    from rich.table import Table

    table = Table(title="Methods: how the draft depends on itself, and on the target")
    for heading in ("method", "dependency", "borrows", "weights", "trees", "N", "what it is"):
        table.add_column(heading)
    for info in (method.info for method in methods.values()):
        grid = ", ".join(str(n) for n in info.default_grid)
        table.add_row(
            info.name,
            info.dependency.value,
            info.borrows.value,
            info.weights.value,
            "yes" if info.has_trees else "no",
            f"{grid} (at most {info.max_num_speculative_tokens})" if grid else "-",
            info.summary,
        )
    return table


def _knobs(methods: Mapping[str, Method]) -> Table:
    """Knobs that several methods share stand in one row."""
    from rich.table import Table

    from forerun.drafters.knobs import Knob, knobs_of

    names: dict[Knob, list[str]] = {}
    for name, method in methods.items():
        for knob in knobs_of(method.config):
            names.setdefault(knob, []).append(name)
    table = Table(title="Knobs: --knob NAME=VALUE, or knobs of a plan")
    for heading in ("method", "knob", "default", "what it does"):
        table.add_column(heading)
    for knob, sharing in names.items():
        default = "none" if knob.default == "" else str(knob.default).lower()
        table.add_row(", ".join(sharing), knob.name, default, knob.summary)
    return table


def _kernels() -> str:
    """The kernel path that a lean decoder gets here, and what else was built."""
    from forerun.models.native.build import PATHS, library_file
    from forerun.models.native.kernels import find_kernels

    found = find_kernels()
    built = [path for path in PATHS if library_file(path).exists()]
    name = "torch" if found is None else f"native kernels, {found.path}"
    return f"{name} (built: {', '.join(built) or 'none'})"


def _plain(method: Method) -> dict[str, Any]:
    from forerun.drafters.knobs import knobs_of

    info = method.info
    return {
        "dependency": info.dependency.value,
        "borrows": info.borrows.value,
        "weights": info.weights.value,
        "has_trees": info.has_trees,
        "default_grid": list(info.default_grid),
        "max_num_speculative_tokens": info.max_num_speculative_tokens,
        "summary": info.summary,
        "knobs": [asdict(knob) for knob in knobs_of(method.config)],
    }
