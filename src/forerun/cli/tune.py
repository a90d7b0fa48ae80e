"""``forerun tune``: measure which way of drafting pays, per workload, on this machine."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun.errors import ForerunError

if TYPE_CHECKING:
    from forerun.backends.own.backend import OwnBackend
    from forerun.sweep.plan import Plan
    from forerun.workloads.workload import Workload

# A quick tune ends within six minutes; loading and the report take the rest.
QUICK_BUDGET = 330.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of ``forerun tune``; each stands over the plan file's key."""
    parser.add_argument("--plan", type=Path, metavar="FILE", help="a plan in TOML; flags stand over its keys")
    parser.add_argument(
        "--quick", action="store_true", help="predict by replay, measure the most promising; six minutes"
    )
    parser.add_argument("--out", type=Path, default=Path("forerun-tune"), metavar="DIR", help="where everything goes")
    parser.add_argument("--model", action="append", metavar="MODEL", help="a target; may be repeated")
    parser.add_argument("--method", action="append", metavar="NAME", help="a method; may be repeated (default: all)")
    parser.add_argument(
        "-n", "--num-speculative-tokens", action="append", type=int, metavar="N", help="may be repeated"
    )
    parser.add_argument(
        "--draft-model", action="append", default=[], metavar="MODEL", help="a second model to draft with"
    )
    parser.add_argument("--workload", action="append", metavar="NAME", help="may be repeated (default: all)")
    parser.add_argument("--prompts", metavar="FILE", help="your own traffic instead of the workloads")
    parser.add_argument("--temperature", action="append", type=float, metavar="T", help="may be repeated (default: 0)")
    parser.add_argument("--concurrency", action="append", type=int, metavar="C", help="may be repeated (default: 1)")
    parser.add_argument("--max-tokens", type=int, help="output tokens per prompt (default: 128; quick fits the time)")
    parser.add_argument("--seed", action="append", type=int, help="may be repeated (default: 0)")
    parser.add_argument("--prompts-per-workload", type=int, metavar="K", help="sample so many (default: all)")
    parser.add_argument(
        "--warm-corpus", metavar="FILE", help="fill shared corpora from these prompts' answers; named so"
    )
    parser.add_argument("--time-budget", type=float, metavar="SECONDS", help="stop measuring after so long")
    parser.add_argument("--past-end", action="store_true", help="generate past the natural end, and label it")
    parser.add_argument("--run-code", action="store_true", help="let checkers run code that the model wrote")
    parser.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="arithmetic (auto)")
    parser.add_argument("--device", default="auto", help="cuda, mps, cpu or auto")


def run(args: argparse.Namespace) -> int:
    """Tunes, prints the table and writes the report, the policy and the raw responses."""
    started = time.perf_counter()
    from forerun.sweep.plan import read_plan

    plan = read_plan(args.plan, _plan_flags(args))
    workloads = _workloads(plan)

    from rich.console import Console

    from forerun.cli.tune_progress import TuneProgress
    from forerun.report.html import write_report
    from forerun.report.terminal import render
    from forerun.sweep.files import make_directory
    from forerun.sweep.policy import Policy, write_policy
    from forerun.sweep.progress import Deadline
    from forerun.sweep.run_directory import RunDirectory
    from forerun.sweep.trials import TrialStore
    from forerun.sweep.tuner import Tuner

    make_directory(args.out)
    with TrialStore(args.out / "trials.sqlite") as store:
        backends = {target: _backend(target, plan, args) for target in plan.targets}
        opened = store.open_run(plan)
        with TuneProgress() as progress:
            if opened.is_resumed:
                progress.stage(f"resuming run {opened.run_id}")
            tuner = Tuner(
                plan,
                workloads,
                backends,
                opened,
                RunDirectory(args.out, opened.run_id),
                Deadline(plan.time_budget, started),
                progress,
                _warm_corpus(plan, backends),
                may_execute=args.run_code,
            )
            result = tuner.tune()
        opened.finish(result)
    render(result, Console(highlight=False))
    write_report(result, args.out / "report.html")
    write_policy(args.out / "policy.json", Policy.of(result))
    print()
    for what, name in (("report", "report.html"), ("policy", "policy.json"), ("trials", "trials.sqlite")):
        print(f"{what}: {args.out / name}")
    return 0


def _plan_flags(args: argparse.Namespace) -> dict[str, object]:
    """Flags that were given, by the plan's keys."""
    drafters = [{"method": "draft_model", "artifact": artifact} for artifact in args.draft_model]
    flags: dict[str, object] = {
        "targets": args.model,
        "drafters": drafters or None,
        "methods": args.method,
        "n": args.num_speculative_tokens,
        "workloads": args.workload,
        "temperatures": args.temperature,
        "concurrency": args.concurrency,
        "max_tokens": args.max_tokens,
        "seeds": args.seed,
        "prompts_per_workload": args.prompts_per_workload,
        "prompts": args.prompts,
        "warm_corpus": args.warm_corpus,
        "time_budget": args.time_budget,
        "quick": args.quick or None,
        "is_past_end": args.past_end or None,
    }
    if args.quick and args.time_budget is None:
        flags["time_budget"] = QUICK_BUDGET
    return flags


def _workloads(plan: Plan) -> list[Workload]:
    """The plan's workloads, or one's own prompts, with the control class beside them in every tune."""
    from dataclasses import replace

    from forerun.workloads.catalog import CONTROL, NAMES, load_workload
    from forerun.workloads.prompt_set import sample
    from forerun.workloads.readers.registry import read_prompts
    from forerun.workloads.workload import group_by_workload

    if plan.prompts is not None and plan.workloads is None:
        found = list(group_by_workload(read_prompts(plan.prompts)))
    elif plan.prompts is not None:
        raise ForerunError("prompts or workloads", "both", "drop one of the two")
    else:
        found = [load_workload(name) for name in (plan.workloads or NAMES)]
    if not any(workload.name == CONTROL for workload in found):
        found.append(load_workload(CONTROL))
    if plan.prompts_per_workload is None:
        return found
    return [replace(one, prompts=sample(one.prompts, plan.prompts_per_workload, plan.seeds[0])) for one in found]


def _backend(target: str, plan: Plan, args: argparse.Namespace) -> OwnBackend:
    from forerun.backends.own.backend import OwnBackend
    from forerun.cli.progress import load_with_progress

    loaded = load_with_progress(target, dtype=args.dtype, device=args.device)
    artifacts = dict.fromkeys(one.artifact for one in plan.drafters if one.target in (None, target))
    drafters = {artifact: load_with_progress(artifact, dtype=args.dtype, device=args.device) for artifact in artifacts}
    return OwnBackend(loaded, drafters)


def _warm_corpus(plan: Plan, backends: dict[str, Any]) -> dict[str, Sequence[Sequence[int]]]:
    """Per target the tokens of prompts and plain answers from a file of other prompts; nothing by default."""
    if plan.warm_corpus is None:
        return {}
    from forerun.engine.drafting import Drafting
    from forerun.sweep.preparation import sampling_of
    from forerun.workloads.readers.registry import read_prompts

    prompts = read_prompts(plan.warm_corpus)
    params = sampling_of(plan, plan.temperatures[0], plan.max_tokens)
    corpus: dict[str, Sequence[Sequence[int]]] = {}
    for target, backend in backends.items():
        record = backend.run(prompts, Drafting(), params, concurrency=8)
        corpus[target] = [(*request.prompt_ids, *request.token_ids) for request in record.requests]
    return corpus
