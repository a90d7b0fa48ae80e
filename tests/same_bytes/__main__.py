"""``PYTHONPATH=tests python -m same_bytes``: exit status 1 on any difference, 2 on a bad argument."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from forerun.errors import ForerunError
from forerun.models.catalog import DEFAULT_MODEL
from same_bytes.run import Run
from same_bytes.run_directory import RunDirectory
from same_bytes.setting import settings
from same_bytes.subject import LoadedSubject, Subject, TinySubject

TINY = "tiny"


def main(argv: Sequence[str] | None = None, subject: Subject | None = None) -> int:
    """``subject`` stands in for the model named."""
    args = _parser().parse_args(argv)
    chosen = subject or (TinySubject() if args.model == TINY else LoadedSubject(args.model))
    try:
        return _run(args, chosen)
    except ForerunError as error:
        print(error, file=sys.stderr)
        return 2


def _run(args: argparse.Namespace, subject: Subject) -> int:
    prompts = subject.prompts(args.prompts)
    directory = RunDirectory(args.out, subject, prompts, args.tokens)
    chosen = settings(subject.weights)
    report = Run(subject, prompts, args.tokens, chosen, directory, lambda line: print(line, flush=True)).run()
    print(f"{report.headline}\n{directory.path / 'report.md'}")
    if report.first_difference:
        print(f"\nfirst difference: {report.first_difference}")
    return 0 if report.is_passed else 1


def _positive(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} is not at least 1")
    return count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="same_bytes", description=__doc__)
    parser.add_argument("--model", default=DEFAULT_MODEL, help=f"a path or a catalog name; {TINY}: a tiny random model")
    parser.add_argument("--prompts", type=_positive, default=200, help="how many (default 200)")
    parser.add_argument("--tokens", type=_positive, default=32, help="continued by how many (default 32)")
    parser.add_argument("--out", type=Path, default=Path("runs/same_bytes"), help="where results are kept")
    return parser


if __name__ == "__main__":
    sys.exit(main())
