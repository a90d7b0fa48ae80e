"""``forerun models``: the catalogue, and fetching from it."""

from __future__ import annotations

import argparse


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of ``forerun models``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="what can be fetched, and what lies on disk")
    pull = actions.add_parser("pull", help="fetch a model and check its hash; later use needs no network")
    pull.add_argument("name", help="a name from `forerun models list`")


def run(args: argparse.Namespace) -> int:
    """Lists or fetches."""
    from forerun.models.catalog import CATALOG, find_model
    from forerun.models.pull import is_pulled, model_path

    if args.action == "list":
        for entry in CATALOG.values():
            where = str(model_path(entry)) if is_pulled(entry) else f"not here; `forerun models pull {entry.name}`"
            print(f"{entry.name}  {entry.summary}  {where}")
        return 0
    from forerun.cli.progress import pull_with_progress

    print(pull_with_progress(find_model(args.name)))
    return 0
