"""What a round costs in several trees of forerun, in turn: python -m benchmarks.round_trees MODEL TREE TREE

Each tree (a checkout with its kernels built: PYTHONPATH=src python -m forerun.models.native.build in its root) runs in
a process of its own; they take turns run by run, at one thread and in CPU time, so the machine needn't be quiet for the
difference, only for the absolute times. Medians over all rounds; shares are medians over runs, with an interval that
the true median leaves in at most 3.1 % of cases.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command import run_script
from forerun.errors import ForerunError
from forerun.sweep.statistics import median, median_interval

ROOT = Path(__file__).resolve().parent.parent
Rounds = list[list[float]]


class Tree:
    """One tree's process. ``kernels`` names what computes its passes."""

    def __init__(self, directory: Path, arguments: list[str]) -> None:
        """Raises ``ForerunError`` for what is no tree, runs another's package or ends before it is ready."""
        source = directory.resolve() / "src"
        if not (source / "forerun" / "__init__.py").is_file():
            raise ForerunError("a checkout of forerun", f"no src/forerun/__init__.py in {directory}", "name its root")
        self.directory = directory
        paths = os.pathsep.join(str(path) for path in (source, ROOT))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.children.round_child", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        ready = json.loads(self._answer())
        self.kernels: str = ready["kernels"]
        if not Path(ready["package"]).resolve().is_relative_to(source):
            self.close()
            raise ForerunError(f"the package of {directory}", ready["package"], "name a tree that holds its own files")

    def run(self) -> Rounds:
        """The rounds of one more run: seconds in all, then those of each phase."""
        assert self._process.stdin is not None
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        rounds: Rounds = json.loads(self._answer())
        return rounds

    def close(self) -> None:
        """End the process, which reads to the end of its lines."""
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise ForerunError(f"an answer from {self.directory}", "none", "see its error above")
        return line


def main() -> None:
    """Print a row per tree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.round_trees", description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a model directory, a GGUF file or a catalog name")
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    parser.add_argument("--method", default="ngram", help="a retrieval method (default: ngram)")
    parser.add_argument("--length", type=int, default=0, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, help="above 0 with top-p 0.95")
    parser.add_argument("--tokens", type=int, default=32, help="tokens per run (default: 32)")
    parser.add_argument("--repeats", type=int, default=12, help="runs per tree, at least 6 (default: 12)")
    options = parser.parse_args()
    asked = [options.model, options.method, options.length, options.temperature, options.tokens]
    trees = [Tree(directory, [str(value) for value in asked]) for directory in options.trees]
    runs: list[list[Rounds]] = [[] for _ in trees]
    for _ in range(options.repeats):
        for index, tree in enumerate(trees):
            runs[index].append(tree.run())
    if warning := difference_of([tree.kernels for tree in trees]):
        print(warning)
    print("pass ms | draft µs  sample µs  other µs  beside µs  all µs | share of a round")
    for tree, runs_of_tree in zip(trees, runs, strict=True):
        tree.close()
        print(f"{_row(runs_of_tree)}  {tree.directory}, kernels {tree.kernels}")


def difference_of(kernels: Sequence[str]) -> str:
    """What to say of trees whose passes these compute; nothing where they are the same."""
    if len(set(kernels)) == 1:
        return ""
    build = "in each checkout: PYTHONPATH=src python -m forerun.models.native.build"
    return f"The trees' kernels differ ({', '.join(kernels)}): passes and shares can't be compared. {build}"


def _row(runs: list[Rounds]) -> str:
    columns = list(zip(*(round for run in runs for round in run), strict=True))
    seconds, draft, verify, sample, other = columns
    outside = [all_of_it - the_pass for all_of_it, the_pass in zip(seconds, verify, strict=True)]
    beside = [rest - sum(phases) for rest, *phases in zip(outside, draft, sample, other, strict=True)]
    micros = [median(column) * 1e6 for column in (draft, sample, other, beside, outside)]
    shares = [1 - sum(round[2] for round in run) / sum(round[0] for round in run) for run in runs]
    interval = median_interval(shares)
    between = f"{interval.low:.1%} to {interval.high:.1%}" if interval else "too few repeats"
    cells = "{:8.0f}  {:9.0f}  {:8.0f}  {:9.0f}  {:6.0f}".format(*micros)
    return f"{median(verify) * 1e3:7.2f} | {cells} | {median(shares):.1%} ({between})"


if __name__ == "__main__":
    run_script(main)
