"""``forerun methods``: the dependency table, and the kernels of this machine."""

from __future__ import annotations

import argparse
import json
import sys

from forerun.drafters.base import MethodInfo


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of ``forerun methods``."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    """Prints every registered method with its structure, and what computes passes here."""
    from forerun.drafters.registry import METHODS

    infos = [method.info for method in METHODS.values()]
    if args.json:
        json.dump({info.name: _plain(info) for info in infos}, sys.stdout, indent=2)
        print()
        return 0
    from rich.table import Table

    from forerun.cli.terminal import Terminal

    table = Table(title="Methods: how the draft depends on itself, and on the target")
    for heading in ("method", "dependency", "borrows", "weights", "trees", "N", "what it is"):
        table.add_column(heading)
    for info in infos:
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
    terminal = Terminal()
    terminal.print(table)
    terminal.print(f"On this CPU passes are computed by: {_kernels()}.")
    return 0


def _kernels() -> str:
    """The kernel path that a lean decoder gets here, and what else was built."""
    from forerun.models.native.build import PATHS, library_file
    from forerun.models.native.kernels import find_kernels

    found = find_kernels()
    built = [path for path in PATHS if library_file(path).exists()]
    name = "torch" if found is None else f"native kernels, {found.path}"
    return f"{name} (built: {', '.join(built) or 'none'})"


def _plain(info: MethodInfo) -> dict[str, object]:
    return {
        "dependency": info.dependency.value,
        "borrows": info.borrows.value,
        "weights": info.weights.value,
        "has_trees": info.has_trees,
        "default_grid": list(info.default_grid),
        "max_num_speculative_tokens": info.max_num_speculative_tokens,
        "summary": info.summary,
    }
