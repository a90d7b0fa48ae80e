"""``forerun tune``: measure which way of drafting pays, per workload, on this machine."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forerun.cli.parser import add_dtype_flags, add_inexact_flag, add_kv_flag
from forerun.errors import ForerunError

if TYPE_CHECKING:
    from forerun.backends.own.backend import OwnBackend
    from forerun.models.loading.loaded_target import LoadedTarget
    from forerun.sweep.plan import Plan
    from forerun.sweep.progress import Deadline
    from forerun.sweep.results import TuneResult
    from forerun.workloads.workload import Workload

# A quick tune ends within six minutes; loading and the report take the rest.
QUICK_BUDGET = 310.0

# What --out holds, besides the runs' own directories.
STORE = "trials.sqlite"
REPORT = "report.html"
POLICY = "policy.json"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of ``forerun tune``; each stands over the plan file's key."""
    parser.add_argument("--plan", type=Path, metavar="FILE", help="a plan in TOML; flags stand over its keys")
    parser.add_argument(
        "--quick", action="store_true", help="predict by replay, measure the most promising; six minutes"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/tune"), metavar="DIR", help="where everything goes (runs/tune)"
    )
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
    add_dtype_flags(parser)
    add_kv_flag(parser, default=None)
    add_inexact_flag(parser)
    parser.add_argument("--device", default="auto", help="cuda, mps, cpu or auto")


def run(args: argparse.Namespace) -> int:
    """Tunes, prints the table and writes the report, the policy and the raw responses."""
    started = time.perf_counter()
    from forerun.sweep.plan import read_plan

    plan = read_plan(args.plan, _plan_flags(args))
    workloads = _workloads(plan)

    from forerun.sweep.check import check, check_plan
    from forerun.sweep.files import fresh_directory
    from forerun.sweep.progress import Deadline

    check_plan(plan, workloads)
    with fresh_directory(args.out):
        _check_store(args.out / STORE)
        backends = _backends(plan, args)
        corpus = _warm_corpus(plan, backends)
        check(plan, workloads, backends, corpus)
        result = _tune(plan, workloads, backends, corpus, Deadline(plan.time_budget, started), args)

    from forerun.cli.terminal import Terminal
    from forerun.report.terminal import render

    render(result, Terminal())
    print()
    for what, name in (("report", REPORT), ("policy", POLICY), ("trials", STORE)):
        print(f"{what}: {args.out / name}")
    return 0


def _tune(
    plan: Plan,
    workloads: Sequence[Workload],
    backends: Mapping[str, OwnBackend],
    corpus: Mapping[str, Sequence[Sequence[int]]],
    deadline: Deadline,
    args: argparse.Namespace,
) -> TuneResult:
    """Runs or resumes the plan. The run ends when its report and policy lie on disk, not before.

    A run that was out of time doesn't end: the same command goes on with it.
    """
    from forerun.cli.tune_progress import TuneProgress
    from forerun.report.html import write_report
    from forerun.sweep.files import in_use
    from forerun.sweep.policy import Policy, write_policy
    from forerun.sweep.run_directory import RunDirectory
    from forerun.sweep.trials import TrialStore
    from forerun.sweep.tuner import Tuner

    with in_use(args.out), TrialStore(args.out / STORE) as store:
        run = store.open_run(plan, _basis(workloads, backends, args))
        directory = RunDirectory(args.out, run.run_id)
        try:
            with TuneProgress() as progress:
                progress.stage(f"{'resuming ' if run.is_resumed else ''}run {run.run_id}")
                tuner = Tuner(
                    plan, workloads, backends, run, directory, deadline, progress, corpus, may_execute=args.run_code
                )
                result = tuner.tune()
        except KeyboardInterrupt:
            print(f"forerun: what run {run.run_id} measured is kept; the same command resumes it", file=sys.stderr)
            raise
        write_report(result, args.out / REPORT)
        write_policy(args.out / POLICY, Policy.of(result))
        if result.is_finished:
            run.finish(result)
    return result


def _basis(workloads: Sequence[Workload], backends: Mapping[str, OwnBackend], args: argparse.Namespace) -> str:
    """What a run must keep to beside its plan: prompts, model files, arithmetic, the machine's software."""
    from forerun.conditions import of_machine
    from forerun.workloads.prompt_set import prompt_set_hash

    machine = of_machine()
    parts = [
        *(f"{workload.name} {prompt_set_hash(workload.prompts)}" for workload in workloads),
        *(f"{target} {backend.artifacts}" for target, backend in backends.items()),
        f"{args.dtype} {args.draft_dtype} {args.device} {args.inexact} {args.run_code}",
        f"{machine.commit} {machine.torch} {machine.transformers} {machine.threads} {machine.os}",
    ]
    return "\n".join(parts)


def _check_store(path: Path) -> None:
    """Refuse a file that is no trial store before a model is loaded for it."""
    from forerun.sweep.trials import TrialStore

    if path.exists():
        TrialStore(path).close()


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
        "kv_dtype": args.kv_dtype,
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


def _backends(plan: Plan, args: argparse.Namespace) -> dict[str, OwnBackend]:
    """One per target; a drafter that serves several of them is loaded once."""
    from forerun.backends.own.backend import OwnBackend
    from forerun.cli.progress import load_with_progress

    def load(source: str, dtype: str) -> LoadedTarget:
        return load_with_progress(source, dtype=dtype, device=args.device, exact=not args.inexact)

    if args.draft_dtype is not None and not plan.drafters:
        raise ForerunError("--draft-dtype with a draft model alone", f"--draft-dtype {args.draft_dtype}", "drop it")
    draft_dtype = args.draft_dtype or args.dtype
    names = dict.fromkeys(one.artifact for one in plan.drafters)
    drafters = {name: load(name, draft_dtype) for name in names}
    backends = {}
    for target in plan.targets:
        ours = {one.artifact: drafters[one.artifact] for one in plan.drafters if one.target in (None, target)}
        backends[target] = OwnBackend(load(target, args.dtype), ours, kv_dtype=plan.kv_dtype)
    return backends


def _warm_corpus(plan: Plan, backends: Mapping[str, OwnBackend]) -> dict[str, Sequence[Sequence[int]]]:
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
