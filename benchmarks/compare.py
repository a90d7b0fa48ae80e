"""The one command: ``python -m benchmarks.compare --target smollm2-135m [--draft FILE] [--quick]``.

Builds each peer's environment on first use, runs forerun and its peers in turn on the same prompts, keeps the report in
runs/benchmarks/results/ and every raw answer beside it, and writes runs/benchmarks/RESULTS.md from all reports there.
The repository's own page changes only where --page and --results name it.
"""

from __future__ import annotations

import argparse
import re
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report, results
from benchmarks.command import fail, run_script
from benchmarks.comparison import Comparison, Stopped
from benchmarks.plan import PEERS, Plan
from forerun.errors import ForerunError

RUNS = Path("runs/benchmarks")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; 2 with one line on standard error where forerun or its models can't be run."""
    given = _parser().parse_args(arguments)
    # Ended politely, a run ends its servers too and writes what it has.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    started = time.monotonic()
    try:
        plan = _plan(given)
        slug = _slug(plan)
        runs, command = Path(given.runs) / slug, _command(plan, given)
        comparison = Comparison(plan, command, runs, lambda line: _say(line, started), is_resumed=given.resume)
        found = comparison.run()
    except ForerunError as error:
        return fail(error)
    except Stopped:
        print("benchmarks.compare: stopped before anything was compared; --resume goes on", file=sys.stderr)
        return 1
    kept, page = Path(given.results), Path(given.page)
    report.write(found, kept / f"{slug}.json")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(results.render(report.read(path) for path in sorted(kept.glob("*.json"))))
    print(results.render([found]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="forerun beside its peers.")
    parser.add_argument("--target", required=True, help="GGUF file, model directory, hub:ORG/NAME or catalogue name")
    parser.add_argument("--draft", help="the same for a draft model")
    parser.add_argument("--quick", action="store_true", help="eight minutes: few settings, prompts and tokens")
    parser.add_argument("--few-settings", action="store_true", help="of each method the likeliest best alone")
    parser.add_argument("--eager", action="store_true", help="vLLM uncompiled: it starts sooner")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of %(default)s")
    parser.add_argument("--workloads", default="code_edit,human_eval", help="names, default %(default)s")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--num-choose", type=int, help="prompts per workload to choose settings on")
    parser.add_argument("--num-measure", type=int, help="prompts per workload to compare the chosen ones on")
    parser.add_argument("--max-tokens", type=int, help="longest answer")
    parser.add_argument("--positions", type=int, help="positions where divergences from fp32 are taken; 0 for none")
    parser.add_argument(
        "--seconds",
        type=float,
        help="bounds the measuring; environments, starts and answers don't count",
    )
    parser.add_argument("--gguf-dtype", default="bfloat16", help="forerun's arithmetic beside GGUF peers")
    parser.add_argument("--max-foreign-share", type=float, help="busier machines spoil an answer")
    parser.add_argument("--runs", default=str(RUNS), help="raw answers and logs (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="go on with the answers of an earlier run")
    parser.add_argument("--results", default=str(RUNS / "results"), help="reports, one a pair (default: %(default)s)")
    parser.add_argument("--page", default=str(RUNS / "RESULTS.md"), help="of all reports (default: %(default)s)")
    return parser


def _plan(given: argparse.Namespace) -> Plan:
    plan = Plan(
        given.target,
        given.draft,
        tuple(name for name in given.peers.split(",") if name),
        tuple(given.workloads.split(",")),
        given.threads,
        gguf_dtype=given.gguf_dtype,
    )
    plan = plan.quick() if given.quick else plan
    return plan.changed(
        num_choose=given.num_choose,
        num_measure=given.num_measure,
        max_tokens=given.max_tokens,
        num_positions=given.positions,
        seconds=given.seconds,
        max_foreign_share=given.max_foreign_share,
        has_few_settings=given.few_settings or None,
        is_eager=given.eager or None,
    )


def _slug(plan: Plan) -> str:
    names = [Path(name).stem for name in (plan.target, plan.draft) if name]
    return re.sub(r"[^\w.-]+", "-", "+".join(names)).strip("-").lower() + ("-quick" if plan.is_quick else "")


def _command(plan: Plan, given: argparse.Namespace) -> str:
    """How to get this again on another machine: files by their names alone."""
    parts = ["python -m benchmarks.compare"]
    for name, value in vars(given).items():
        if name in ("runs", "results", "page", "resume") or value is None or value is False:
            continue
        if value == _parser().get_default(name):
            continue
        shown = Path(value).name if name in ("target", "draft") and Path(value).exists() else str(value)
        flag = "--" + name.replace("_", "-")
        parts.append(flag if value is True else f"{flag} {shlex.quote(shown)}")
    return " ".join(parts)


def _stop(number: int, frame: object) -> None:
    """Once: a second signal must not interrupt the writing."""
    signal.signal(number, signal.SIG_IGN)
    raise Stopped


def _say(line: str, started: float) -> None:
    print(f"[{time.monotonic() - started:5.0f} s] {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run_script(main)
