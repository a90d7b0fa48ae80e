"""Flags about what passes cost and how many rows they take, and the limits that they ask for."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from forerun.errors import ForerunError

if TYPE_CHECKING:
    from forerun.engine.costs.pass_costs import PassCosts
    from forerun.engine.row_limits import RowLimits
    from forerun.models.loading.loaded_target import LoadedTarget


def add_row_flags(parser: argparse.ArgumentParser) -> None:
    """Where costs come from, and how long a pass may take."""
    parser.add_argument(
        "--pass-costs",
        choices=("off", "cached", "measure"),
        default="cached",
        help="rows of a pass by what passes cost here: off, as measured before (default), or measured if need be",
    )
    parser.add_argument(
        "--max-pass-seconds", type=float, metavar="S", help="longest pass that reads a prompt, by --pass-costs (0.5)"
    )


def check_row_flags(args: argparse.Namespace) -> None:
    """Raises ``ForerunError`` for a bound that allows no pass, before anything is loaded."""
    bound = args.max_pass_seconds
    if bound is not None and not bound > 0:
        raise ForerunError("--max-pass-seconds above 0", f"{bound:g}", "raise it, or leave it out")
    if bound is not None and args.pass_costs == "off":
        raise ForerunError("pass costs for --max-pass-seconds", "--pass-costs off", "drop one of the two")


def row_limits(args: argparse.Namespace, loaded: LoadedTarget) -> RowLimits | None:
    """The limits, or nothing where no costs are known: a pass then takes what the row budget allows.

    Raises ``ForerunError`` where a bound was asked for and nothing is known.
    """
    from forerun.engine.costs.cost_cache import find_pass_costs
    from forerun.engine.row_limits import MAX_PASS_SECONDS, RowLimits

    if args.pass_costs == "off":
        return None
    costs = find_pass_costs(loaded, args.kv_dtype)
    if costs is None and args.pass_costs == "measure":
        costs = _measure(loaded, args.kv_dtype)
    bound = args.max_pass_seconds
    if costs is None:
        if bound is not None:
            raise ForerunError("pass costs for --max-pass-seconds", "none measured", "add --pass-costs measure")
        return None
    return RowLimits(costs, max_pass_seconds=MAX_PASS_SECONDS if bound is None else bound)


def _measure(loaded: LoadedTarget, kv_dtype: str) -> PassCosts:
    """Measures, and keeps what a quiet machine gave: a busy one would shape every later run."""
    from forerun.engine.costs.cost_cache import keep_pass_costs, measure_pass_costs
    from forerun.sweep.load_guard import LoadLimits, LoadWatch

    print("forerun: measuring what passes cost here, once", file=sys.stderr)
    with LoadWatch() as watch:
        costs = measure_pass_costs(loaded, kv_dtype)
    spoiled_by = LoadLimits().spoiled_by(watch.reading)
    if spoiled_by:
        print(f"forerun: pass costs serve this run alone and are not kept: {spoiled_by}", file=sys.stderr)
    else:
        keep_pass_costs(costs)
    return costs
