"""Memory of a process that runs a model, over one that has only imported the runtime.

``python -m benchmarks.figures MODEL --only memory`` prints it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from forerun.errors import ForerunError

# Run in a process of its own: what one has touched, the next must not find.
_PROGRAM = """
import json, sys
import psutil, torch, transformers, tokenizers
import forerun.engine.engine
from forerun.engine.engine import Engine
from forerun.models.loading.load_target import load_target
from forerun.sampling.params import SamplingParams
def used(): return psutil.Process().memory_info().rss
imported = used()
loaded = load_target(sys.argv[1], dtype=sys.argv[2])
target = loaded.target
engine = Engine(loaded, cache_tokens=2048)
pool = engine.cache.store.bytes_per_slot * engine.cache.store.num_slots
engine.generate([[5 + i for i in range(24)]] * 8, SamplingParams(max_tokens=16, ignore_eos=True))
print(json.dumps({"imported": imported, "used": used(), "pool": pool, "weights": target.weight_bytes}))
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes: of the bare runtime, of everything, and of weights and pool within it."""

    imported: int
    used: int
    pool: int
    weights: int

    @property
    def rest(self) -> int:
        """What is neither runtime, weights nor pool."""
        return self.used - self.imported - self.pool - self.weights


def footprint_of(model: str, dtype: str) -> Footprint:
    """Loads the model in a child and serves eight requests with passes of up to 32 rows and more while prefilling.

    Raises ForerunError with the child's last line where it fails.
    """
    done = subprocess.run([sys.executable, "-c", _PROGRAM, model, dtype], capture_output=True, text=True, timeout=600)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise ForerunError(f"to run {model} in {dtype}", last[0], "see the reason")
    return Footprint(**json.loads(done.stdout.splitlines()[-1]))
