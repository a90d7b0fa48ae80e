"""The ``forerun`` command: picks the subcommand, turns errors into one line and an exit code."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from forerun.cli.parser import Parser
from forerun.errors import ForerunError

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM})
_REMEDY = "free space, mend its permissions or choose another place"

# Name -> what it is for. Modules are imported only when asked for, so that --help is quick and touches no device.
COMMANDS = {
    "tune": "measure which way of drafting pays, per workload, on this machine",
    "generate": "one prompt, with the rounds shown",
    "methods": "every method: dependency structure, what it borrows, where its weights live",
    "models": "fetch and list models",
}


class Terminated(KeyboardInterrupt):
    """Asked to end by a service manager or ``kill``: what Ctrl-C leaves in order, this does too."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; 0 when it worked, 2 for an error that a person can mend, 130 or 143 when interrupted."""
    # Read when torch starts its threads. Waiting threads spin for some microseconds, which a pass of many small
    # operations needs, and then sleep: on busy cores threads that spin on stall each other for up to a second.
    os.environ.setdefault("GOMP_SPINCOUNT", "30000")
    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a sign gets a question mark, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with _orderly_termination():
            code = _run(list(sys.argv[1:] if argv is None else argv))
        # What is still buffered may meet a closed pipe or a full disk: here, not while Python leaves.
        sys.stdout.flush()
        return code
    except ForerunError as error:
        return _fail(str(error))
    except Terminated:
        print("forerun: terminated", file=sys.stderr)
        return 128 + signal.SIGTERM
    except KeyboardInterrupt:
        print("forerun: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        if error.filename is None:
            _discard_output()
        where = error.filename or "standard output"
        return _fail(str(ForerunError(f"to be able to use {where}", error.strerror or "no reason", _REMEDY)))


@contextmanager
def _orderly_termination() -> Iterator[None]:
    """SIGTERM as an exception, so that whoever holds a file or a directory puts it in order first."""

    def raise_terminated(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _discard_output() -> None:
    """Nobody can have the rest of it; Python would try again when it leaves."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: list[str]) -> int:
    parser = Parser(prog="forerun", description="Speculative decoding is not a switch: find out what pays.")
    parser.add_argument("--version", action="store_true", help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = subparsers.add_parser(name, help=summary, description=summary)
        if name == chosen:
            module = importlib.import_module(f"forerun.cli.{name}")
            module.add_flags(command)
            command.set_defaults(run=module.run)
    args = parser.parse_args(argv)
    if args.version:
        from importlib.metadata import version

        print(f"forerun {version('forerun')}")
        return 0
    if args.command is None:
        parser.print_help()
        return 0
    result: int = args.run(args)
    return result


def _fail(message: str) -> int:
    print(f"forerun: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
