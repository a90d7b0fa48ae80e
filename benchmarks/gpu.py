"""Checks and times the engine on a GPU, in under five minutes: python -m benchmarks.gpu [--model PATH]

Without --model the weights are random, in the shape of SmolLM2-135M: enough for every check but acceptance. See
docs/gpu.md.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch

from benchmarks.command import fail, run_script
from benchmarks.device import checks, times
from benchmarks.device.models import Model, StoredModel, smollm2_shaped, tiny_models
from benchmarks.device.row import Row
from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import EXACT, INEXACT
from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.device import choose_device, choose_dtype, describe_device
from forerun.models.recording.clock import device_clock
from forerun.models.recording.recorder import Compiled, CudaGraphs

# A model may take so long to compile; it isn't begun with less time left.
COMPILE_SECONDS = 100.0

Section = Callable[[], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Bench:
    """What is checked where."""

    device: torch.device
    dtype: torch.dtype
    model: Model
    draft: Model | None
    num_tokens: int
    contexts: Sequence[int]

    def sections(self) -> Iterator[tuple[str, Section, float]]:
        """Name, rows and the least seconds that each needs, what matters most first."""
        dtypes = [torch.float32] if self.dtype is torch.float32 else [torch.float32, self.dtype]
        exact = self.model.on(self.device, self.dtype, EXACT)
        inexact = self.model.on(self.device, self.dtype, INEXACT)
        targets: dict[str, Target] = {"exact": exact, "inexact": inexact}
        clock = device_clock(self.device)
        yield "tiny models, parity", partial(checks.tiny_parity, self.device, dtypes), 0
        yield "parity", partial(checks.parity, self.model, targets, self.num_tokens), 0
        yield "same text", partial(checks.same_text, self.model, targets, 48), 0
        yield "rows' independence", partial(checks.independence, self.model, targets, min(96, self.num_tokens)), 0
        for context in self.contexts:
            yield f"C at {context}", partial(times.passes, targets, context, clock), 5
            yield f"prefill at {context}", partial(times.prefill, targets, context, clock), 5
        yield "head", partial(times.heads, targets, clock), 5
        yield "drafts", partial(self._drafts, inexact), 5
        if isinstance(inexact, Decoder):
            yield from self._recorded(inexact)

    def _drafts(self, target: Target) -> Iterator[Row]:
        drafter = None if self.draft is None else self.draft.on(self.device, self.dtype, INEXACT)
        return times.drafts(self.model, target, drafter, device_clock(self.device))

    def _recorded(self, decoder: Decoder) -> Iterator[tuple[str, Section, float]]:
        clock, tiny = device_clock(self.device), tiny_models()[:5]
        if self.device.type == "cuda":
            graphs = CudaGraphs()
            yield "graphs, checked", partial(checks.recordings, self.device, graphs, tiny), 10
            for context in self.contexts:
                yield f"graphs at {context}", partial(times.recorded, decoder, [graphs], context, clock), 10
        if self.device.type == "cpu":
            return  # its packed weights are opaque to the compiler
        compiled = Compiled()
        section = partial(times.recorded, decoder, [compiled], self.contexts[0], clock, passes=[(8, 1)])
        yield "compiled", section, COMPILE_SECONDS
        torch._dynamo.reset()  # so that the same pass is compiled once more
        yield "compiled again, from torch's cache on disk", section, COMPILE_SECONDS / 4
        yield "compiled, checked", partial(checks.recordings, self.device, compiled, tiny[:1]), COMPILE_SECONDS / 4


def run(bench: Bench, seconds: float, written: Callable[[Sequence[Row], Sequence[str]], None]) -> list[Row]:
    """Prints and returns all rows. ``written`` gets them after every section, and what there was no time for.

    A section that breaks is a failed row with its reason, and the next ones still run: this is where devices are tried
    for the first time.
    """
    end = time.monotonic() + seconds
    rows: list[Row] = []
    missing: list[str] = []
    for name, section, needed in bench.sections():
        if time.monotonic() + needed > end:
            missing.append(name)
            print(f"{name}: not run, no time left", flush=True)
            continue
        print(name, flush=True)
        try:
            for row in section():
                print(row, flush=True)
                rows.append(row)
                if time.monotonic() > end:
                    missing.append(f"the rest of {name}")
                    break
        except Exception as error:  # whatever a device, a driver or a compiler may raise
            traceback.print_exc()
            reason = (str(error).strip() or "no message").splitlines()[0]
            rows.append(Row(name, "broke off", f"{type(error).__name__}: {reason}", passed=False))
            print(rows[-1], flush=True)
        written(rows, missing)
    return rows


def record_of(bench: Bench, rows: Sequence[Row], missing: Sequence[str]) -> dict[str, object]:
    """What goes into the file."""
    return {
        "device": asdict(describe_device(bench.device)),
        "torch": torch.__version__,
        "model": bench.model.name,
        "dtype": str(bench.dtype).removeprefix("torch."),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [asdict(row) for row in rows],
        "not_run": list(missing),
    }


def main() -> int:
    """0 when every judged check passed, 1 when one failed, 2 where nothing could be run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a model directory, a GGUF file or a catalog name (default: random weights)")
    parser.add_argument("--draft", help="a draft model of the same vocabulary (default: random weights, four layers)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps; cpu rehearses the script")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--layers", type=int, default=30, help="of the random model (default: 30)")
    parser.add_argument("--tokens", type=int, default=256, help="read for parity (default: 256)")
    parser.add_argument("--contexts", type=int, nargs="+", default=(512, 4096))
    parser.add_argument("--seconds", type=float, default=270, help="no section begins after them (default: 270)")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="folder of the JSON file")
    options = parser.parse_args()
    try:
        device = choose_device(options.device)
        if device.type == "cpu" and options.device != "cpu":
            raise ForerunError("a CUDA, ROCm or MPS device", "only a CPU", "run it where there is one")
        model = StoredModel(options.model) if options.model else smollm2_shaped(options.layers)
        draft = StoredModel(options.draft) if options.draft else None if options.model else smollm2_shaped(4)
        bench = Bench(device, choose_dtype(options.dtype, device), model, draft, options.tokens, options.contexts)
        about = describe_device(device)
        print(f"{about.name}, {about.driver}, torch {torch.__version__}; {model.name}", flush=True)
        options.out.mkdir(parents=True, exist_ok=True)
        file = options.out / f"{device.type}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"

        def write(rows: Sequence[Row], missing: Sequence[str]) -> None:
            file.write_text(json.dumps(record_of(bench, rows, missing), indent=1))

        rows = run(bench, options.seconds, write)
    except ForerunError as error:
        return fail(error)
    failed = [row for row in rows if row.passed is False]
    num_judged = sum(row.passed is not None for row in rows)
    print(f"{num_judged - len(failed)} of {num_judged} judged checks passed; written to {file}")
    return 1 if failed else 0


if __name__ == "__main__":
    run_script(main)
