"""``forerun methods``: the dependency table."""

from __future__ import annotations

import argparse
import json
import sys

from forerun.drafters.base import MethodInfo


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of ``forerun methods``."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    """Prints every registered method with its structure."""
    from forerun.drafters.registry import METHODS

    infos = [method.info for method in METHODS.values()]
    if args.json:
        json.dump({info.name: _plain(info) for info in infos}, sys.stdout, indent=2)
        print()
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Methods: how the draft depends on itself, and on the target")
    for heading in ("method", "dependency", "borrows", "weights", "trees", "N", "what it is"):
        table.add_column(heading)
    for info in infos:
        row = _plain(info)
        grid = f"{row['grid']} (at most {info.max_num_speculative_tokens})" if info.default_grid else "-"
        table.add_row(info.name, row["dependency"], row["borrows"], row["weights"], row["trees"], grid, info.summary)
    Console().print(table)
    return 0


def _plain(info: MethodInfo) -> dict[str, str]:
    return {
        "dependency": info.dependency.value,
        "borrows": info.borrows.value,
        "weights": info.weights.value,
        "trees": "yes" if info.has_trees else "no",
        "grid": ", ".join(str(n) for n in info.default_grid),
        "max_num_speculative_tokens": str(info.max_num_speculative_tokens),
        "summary": info.summary,
    }
