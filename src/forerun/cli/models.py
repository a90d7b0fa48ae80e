"""``forerun models``: the catalog, and fetching from it."""

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
    if args.action == "pull":
        from forerun.cli.progress import pull_with_progress

        print(pull_with_progress(args.name))
        return 0
    from forerun.models.cache_root import cache_directory
    from forerun.models.catalog import CATALOG

    for model in CATALOG.values():
        path = cache_directory() / model.file_name
        where = str(path) if path.exists() else f"not fetched; run `forerun models pull {model.name}`"
        print(f"{model.name}: {model.file_name}, {model.num_bytes / 1e6:.0f} MB, {model.licence}: {where}")
    return 0
