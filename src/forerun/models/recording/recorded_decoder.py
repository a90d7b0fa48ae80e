"""The lean decoder with passes of fixed shape that are played again where that was measured to be faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from forerun.errors import ForerunError
from forerun.models.arithmetic.sdpa_attention import SdpaAttention
from forerun.models.base import PassInput, PassOutput, Target
from forerun.models.decoder import Decoder
from forerun.models.kv_store import KVStore
from forerun.models.recording.clock import Clock, device_clock
from forerun.models.recording.pass_shape import PassShape
from forerun.models.recording.recorder import CudaGraphs, Recorder, Run
from forerun.models.recording.static_pass import StaticPass, taken_out
from forerun.types import Tap

# Uses of a shape before it is worth recording, and tries of each way to compute it.
MIN_USES = 3
NUM_TRIES = 5
# Recordings kept at a time: each holds the outputs of its pass.
MAX_RECORDINGS = 48


@dataclass(frozen=True, slots=True)
class Comparison:
    """Fastest seconds of one shape's pass as it is ("eager") and by each recorder, and what recording took."""

    shape: PassShape
    seconds: dict[str, float]
    recording_seconds: dict[str, float]

    @property
    def fastest(self) -> str:
        """Name of the way that won; a tie goes to the pass as it is."""
        return min(self.seconds, key=lambda name: (self.seconds[name], name != "eager"))


class Kind(NamedTuple):
    """Passes that one recording serves."""

    shape: PassShape
    taps: frozenset[Tap]


class RecordedDecoder(Target):
    """Takes a decoder of inexact arithmetic; which way wins depends on measured times, and so do low bits of logits.

    A kind of pass is recorded when it has been asked for ``MIN_USES`` times, compared with the pass as it is, and
    played from then on only if that is faster. Recordings belong to one store: another one, or a new one, drops them.
    """

    def __init__(self, decoder: Decoder, recorders: Sequence[Recorder], clock: Clock) -> None:
        if not isinstance(decoder.attention, SdpaAttention):
            raise ForerunError(
                "inexact arithmetic without a soft cap on scores, for passes that are recorded",
                f"{decoder.traits.name} with {type(decoder.attention).__name__}",
                "load it with exact=False, or use it as it is",
            )
        names = ", ".join(recorder.name for recorder in recorders)
        self.traits = replace(decoder.traits, kernels=f"{decoder.traits.kernels} ({names})")
        self.comparisons: dict[Kind, Comparison] = {}
        self._decoder = decoder
        self._recorders = {recorder.name: recorder for recorder in recorders}
        self._clock = clock
        self._uses: Counter[Kind] = Counter()
        self._store: KVStore | None = None
        self._recordings: dict[Kind, tuple[StaticPass, Run]] = {}

    @property
    def weight_bytes(self) -> int:
        """See ``Target``."""
        return self._decoder.weight_bytes

    def new_store(self, num_slots: int, dtype: torch.dtype | None = None) -> KVStore:
        """See ``Target``; with one slot more, for spare rows."""
        self._drop_recordings(None)
        return self._decoder.new_store(num_slots + 1, dtype)

    @torch.no_grad()
    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        """See ``Target``."""
        if store is not self._store:
            self._drop_recordings(store)
        shape = PassShape.of(batch)
        if shape is None:
            return self._decoder.forward(batch, store, taps)
        kind = Kind(shape, taps)
        recording = self._recordings.get(kind) or self._new_recording(kind, batch, store)
        if recording is None:
            return self._decoder.forward(batch, store, taps)
        # Most recently used last.
        self._recordings[kind] = self._recordings.pop(kind, recording)
        return _played(*recording, batch)

    def embed(self, tokens: Tensor) -> Tensor:
        """See ``Target``."""
        return self._decoder.embed(tokens)

    def head(self, hidden: Tensor) -> Tensor:
        """See ``Target``."""
        return self._decoder.head(hidden)

    def _drop_recordings(self, store: KVStore | None) -> None:
        """What was compared stays known; ``store`` is the one that recordings are of from now on."""
        self._recordings.clear()
        self._store = store

    def _new_recording(self, kind: Kind, batch: PassInput, store: KVStore) -> tuple[StaticPass, Run] | None:
        """None where the kind is too rare so far, or was measured to be no faster recorded."""
        self._uses[kind] += 1
        if self._uses[kind] < MIN_USES:
            return None
        known = self.comparisons.get(kind)
        if known is not None and known.fastest == "eager":
            return None
        static = StaticPass(self._decoder, store, kind.shape, kind.taps)
        static.fill(batch)
        if known is None:
            runs, known = self._compare(kind, static, batch, store)
            self.comparisons[kind] = known
        else:
            runs = {known.fastest: self._recorders[known.fastest].record(static.run)}
        if known.fastest == "eager":
            return None
        while len(self._recordings) >= MAX_RECORDINGS:
            del self._recordings[next(iter(self._recordings))]
        return static, runs[known.fastest]

    def _compare(
        self, kind: Kind, static: StaticPass, batch: PassInput, store: KVStore
    ) -> tuple[dict[str, Run], Comparison]:
        """Records and times. A pass may run many times over: it writes the same rows into the same slots."""
        runs: dict[str, Run] = {}
        recording_seconds: dict[str, float] = {}
        for name, recorder in self._recorders.items():
            start = self._clock()
            runs[name] = recorder.record(static.run)
            recording_seconds[name] = self._clock() - start
        seconds = dict.fromkeys(("eager", *runs), float("inf"))
        for _ in range(NUM_TRIES):
            for name in seconds:
                start = self._clock()
                if name == "eager":
                    self._decoder.forward(batch, store, kind.taps)
                else:
                    _played(static, runs[name], batch)
                seconds[name] = min(seconds[name], self._clock() - start)
        return runs, Comparison(kind.shape, seconds, recording_seconds)


def _played(static: StaticPass, run: Run, batch: PassInput) -> PassOutput:
    static.fill(batch)
    return taken_out(run(), batch)


def with_graphs(target: Target) -> RecordedDecoder:
    """The lean decoder with CUDA graphs, of CUDA or ROCm.

    Raises ForerunError for any other target, on any other device, and for exact arithmetic.
    """
    if not isinstance(target, Decoder):
        raise ForerunError("the lean decoder through torch", f"a {type(target).__name__}", "use the target as it is")
    if target.device.type != "cuda":
        raise ForerunError("a CUDA or ROCm device for graphs", target.traits.device, "use the decoder as it is")
    return RecordedDecoder(target, [CudaGraphs()], device_clock(target.device))
