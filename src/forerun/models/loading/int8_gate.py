"""What int8 weights were measured to cost a model: kept by the hash of its weights, read whenever it is loaded.

``python -m benchmarks.quantisation MODEL`` measures and writes. Without a measurement that passes, int8 is lossy.
"""

from __future__ import annotations

import json
from pathlib import Path

from forerun.models.cache_root import cache_root
from forerun.models.loading.int8_weights import SENSITIVE

MAX_MEAN_KL = 0.01
MIN_POSITIONS = 1000


def write_gate(hash: str, mean_kl: float, num_positions: int) -> None:
    """Keeps a measurement: nats to fp32 over positions of held-out text. ``hash`` is the artifact's."""
    path = _path(hash)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"mean_kl": mean_kl, "num_positions": num_positions, "sensitive": sorted(SENSITIVE)}
    path.write_text(json.dumps(record), encoding="utf-8")


def describe_gate(hash: str) -> str:
    """The measured KL, "lossy" ahead of it where it is too much, rests on too little text, or isn't there."""
    record = _read(_path(hash))
    if record is None:
        return "lossy: KL to fp32 not measured"
    mean_kl, num_positions = record
    known = f"mean KL to fp32 {mean_kl:.4f} over {num_positions} positions"
    has_passed = mean_kl <= MAX_MEAN_KL and num_positions >= MIN_POSITIONS
    return known if has_passed else f"lossy: {known}"


def _path(hash: str) -> Path:
    return cache_root() / "int8_gates" / f"{hash.rpartition(':')[2]}.json"


def _read(path: Path) -> tuple[float, int] | None:
    """None for no file, a damaged one, and a measurement of other sensitive matrices: it has to be taken again."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["sensitive"] != sorted(SENSITIVE):
            return None
        return float(record["mean_kl"]), int(record["num_positions"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
