"""Recorded passes say what the decoder says, touch nothing of their neighbours, and are played only where they win."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import EXACT, INEXACT
from forerun.models.base import PassInput
from forerun.models.decoder import Decoder
from forerun.models.recording.clock import device_clock
from forerun.models.recording.pass_shape import PassShape
from forerun.models.recording.recorded_decoder import MAX_RECORDINGS, MIN_USES, RecordedDecoder, with_graphs
from forerun.models.recording.recorder import Compiled, CudaGraphs
from forerun.models.recording.static_pass import StaticPass, taken_out
from forerun.sampling.params import SamplingParams
from forerun.types import Tap, TapKind
from support.on_device import decoder_on, unlike_sequences
from support.passes import Chunk, batch_of
from support.tape import TapeRecorder
from support.tiny_models import random_tokens

CPU = torch.device("cpu")
TAPS = frozenset({Tap.of_block(1), Tap(TapKind.BEFORE_FINAL_NORM)})


class Ticks:
    """A clock by which the tape takes ``played`` seconds and all else one."""

    def __init__(self, recorder: TapeRecorder, played: float) -> None:
        self.recorder = recorder
        self.played = played
        self.now = 0.0
        self._seen = 0

    def __call__(self) -> float:
        self.now += self.played if self.recorder.num_played > self._seen else 1.0
        self._seen = self.recorder.num_played
        return self.now


def recorded(window: int | None = None, played: float = 0.1) -> tuple[RecordedDecoder, TapeRecorder]:
    recorder = TapeRecorder()
    return RecordedDecoder(decoder_on(CPU, INEXACT, window=window), [recorder], Ticks(recorder, played)), recorder


def filled(target: Decoder | RecordedDecoder, dtype: torch.dtype = torch.float32, num_slots: int = 100):  # type: ignore[no-untyped-def]
    """A store whose slots all have numbers in them."""
    store = target.new_store(num_slots, dtype)
    generator = torch.Generator().manual_seed(9)
    values = torch.randn(2, num_slots, 2, 8, generator=generator)
    for layer in range(len(store.keys)):
        store.write(layer, torch.arange(num_slots), values[0] + layer, values[1] - layer)
    return store


@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_recording_says_what_the_decoder_says(window: int | None, dtype: torch.dtype) -> None:
    """One recording, other tokens and slots every time; after the first uses nothing but the tape computes."""
    plain = decoder_on(CPU, INEXACT, window=window)
    target, recorder = recorded(window)
    own, store = filled(plain, dtype), filled(target, dtype)
    tolerance = 1e-4 if dtype is torch.float32 else 0.05
    for seed in range(MIN_USES + 4):
        batch = unlike_sequences(seed)
        expected, found = plain.forward(batch, own, TAPS), target.forward(batch, store, TAPS)
        torch.testing.assert_close(found.logits, expected.logits, atol=tolerance, rtol=tolerance)
        for tap in TAPS:
            torch.testing.assert_close(found.taps[tap], expected.taps[tap], atol=tolerance, rtol=tolerance)
    assert recorder.num_recorded == 1
    (comparison,) = target.comparisons.values()
    assert comparison.fastest == "tape" and comparison.shape == PassShape(4, 4, 128)


def test_what_was_given_out_is_not_overwritten() -> None:
    target, _ = recorded()
    store = filled(target)
    outputs = [target.forward(unlike_sequences(seed), store, TAPS) for seed in range(MIN_USES + 2)]
    kept = [output.logits.clone() for output in outputs]
    target.forward(unlike_sequences(11), store, TAPS)
    assert all(torch.equal(output.logits, logits) for output, logits in zip(outputs, kept))
    assert not torch.equal(kept[-1], kept[-2])


def test_spare_rows_touch_nothing() -> None:
    """Slots that no row of the batch is stored in keep their bits, and what lies in the spare slot changes no bit."""
    decoder = decoder_on(CPU, INEXACT)
    batch = unlike_sequences()
    shape = PassShape.of(batch)
    assert shape is not None and shape.num_places > len(batch.owners)
    logits = []
    for spare in (0.0, 1e4):
        store = filled(decoder)
        for tensor in (*store.keys, *store.values):
            tensor[-1] = spare
        before = [tensor.clone() for tensor in (*store.keys, *store.values)]
        static = StaticPass(decoder, store, shape, frozenset())
        assert 99 not in batch.slots, "the last slot is nobody's"
        static.fill(batch)
        logits.append(taken_out(static.run(), batch).logits)
        others = [slot for slot in range(99) if slot not in batch.slots]
        for old, new in zip(before, (*store.keys, *store.values), strict=True):
            assert torch.equal(old[others], new[others])
            assert not torch.equal(old[batch.slots], new[batch.slots])
    assert torch.equal(*logits)


def test_a_shape_with_more_room_says_the_same() -> None:
    decoder = decoder_on(CPU, INEXACT, window=9)
    batch = unlike_sequences()
    results = []
    for shape in (PassShape(4, 4, 128), PassShape(8, 4, 256), PassShape(4, 16, 128)):
        static = StaticPass(decoder, filled(decoder), shape, TAPS)
        static.fill(unlike_sequences(5))
        static.fill(batch)
        results.append(taken_out(static.run(), batch))
    for other in results[1:]:
        torch.testing.assert_close(other.logits, results[0].logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("played", "wins"), [(0.5, True), (1.0, False), (3.0, False)])
def test_only_what_measures_faster_is_played(played: float, wins: bool) -> None:
    target, recorder = recorded(played=played)
    store = filled(target)
    for _ in range(MIN_USES):
        target.forward(unlike_sequences(), store)
    num_compared = recorder.num_played - wins
    for _ in range(4):
        target.forward(unlike_sequences(), store)
    assert recorder.num_played - num_compared == (5 if wins else 0)
    (comparison,) = target.comparisons.values()
    assert comparison.fastest == ("tape" if wins else "eager")
    assert comparison.recording_seconds == {"tape": 1.0}


def test_a_new_store_drops_recordings_and_keeps_what_was_measured() -> None:
    target, recorder = recorded()
    for _ in range(2):
        store = filled(target)
        for _ in range(MIN_USES + 1):
            found = target.forward(unlike_sequences(), store)
    assert recorder.num_recorded == 2 and len(target.comparisons) == 1
    plain = decoder_on(CPU, INEXACT)
    expected = plain.forward(unlike_sequences(), filled(plain))
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-5, rtol=1e-5)


def test_recordings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_RECORDINGS > 1
    monkeypatch.setattr("forerun.models.recording.recorded_decoder.MAX_RECORDINGS", 1)
    target, recorder = recorded()
    store = filled(target)
    one = batch_of([Chunk([3], 4, torch.arange(5))])
    for batch in (one, unlike_sequences(), one):
        for _ in range(MIN_USES):
            target.forward(batch, store)
    assert recorder.num_recorded == 3 and len(target._recordings) == 1


def test_shapes_are_powers_of_two_and_end() -> None:
    def shape_of(*sizes: tuple[int, int]) -> PassShape | None:
        chunks, first = [], 0
        for length, rows in sizes:
            chunks.append(Chunk([1] * rows, length - rows, torch.arange(first, first + length)))
            first += length
        return PassShape.of(batch_of(chunks))

    assert shape_of((5, 1)) == PassShape(1, 1, 128)
    assert shape_of((128, 3)) == PassShape(1, 4, 128)
    assert shape_of((129, 3), (9, 9), (4, 1)) == PassShape(4, 16, 256)
    assert shape_of((64, 64)) == PassShape(1, 64, 128)
    assert shape_of((65, 65)) is None
    empty = torch.empty(0, dtype=torch.int64)
    assert PassShape.of(PassInput(empty, empty, empty, (), (), (), {})) is None


@pytest.mark.parametrize("drafting", [Drafting(), Drafting("ngram", 4), Drafting("suffix", 5)], ids=lambda d: d.method)
def test_an_engine_writes_the_same_text(drafting: Drafting) -> None:
    """Greedy, in fp32, on logits far apart: with and without recordings, several requests at a time."""
    prompts = [[token % 31 for token in random_tokens(length, length)] * 2 for length in (9, 20, 33)]
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    target, recorder = recorded()
    run: Callable[..., list[tuple[int, ...]]] = lambda model: [  # noqa: E731
        completion.token_ids for completion in Engine(model, drafting, cache_tokens=1024).generate(prompts, params)
    ]
    assert run(target) == run(decoder_on(CPU, INEXACT))
    assert recorder.num_played > 20


def test_what_cannot_be_recorded_is_refused() -> None:
    with pytest.raises(ForerunError, match="exact=False"):
        RecordedDecoder(decoder_on(CPU, EXACT), [], device_clock(CPU))
    capped = decoder_on(CPU, INEXACT).config
    capped = dataclasses.replace(capped, attention_softcap=50.0)
    with pytest.raises(ForerunError, match="TiledAttention"):
        RecordedDecoder(Decoder(capped, name="capped", arithmetic=INEXACT), [], device_clock(CPU))
    with pytest.raises(ForerunError, match="CUDA or ROCm"):
        with_graphs(decoder_on(CPU, INEXACT))
    with pytest.raises(ForerunError, match="found a RecordedDecoder"):
        with_graphs(recorded()[0])


def test_conditions_name_the_recorders() -> None:
    target, _ = recorded()
    assert target.traits.kernels == "torch (tape)" and not target.traits.is_bit_exact


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA or ROCm device here")
@pytest.mark.parametrize("recorder", [CudaGraphs, Compiled])
@pytest.mark.parametrize("window", [None, 9])
def test_a_device_plays_what_it_computes(recorder: type[CudaGraphs | Compiled], window: int | None) -> None:
    device = torch.device("cuda")
    decoder = decoder_on(device, INEXACT, window=window)
    store = decoder.new_store(101)
    static = StaticPass(decoder, store, PassShape(4, 4, 128), TAPS)
    static.fill(unlike_sequences())
    with torch.no_grad():
        play = recorder().record(static.run)
        for seed in range(4):
            batch = unlike_sequences(seed)
            static.fill(batch)
            found = taken_out(play(), batch)
            expected = decoder.forward(batch, store, TAPS)
            torch.testing.assert_close(found.logits, expected.logits, atol=1e-3, rtol=1e-3)


def test_a_pass_is_one_graph_to_a_compiler() -> None:
    """Nothing in it sends the compiler back to Python. The backend runs what was traced as it is."""
    decoder = decoder_on(CPU, INEXACT, window=9)
    batch = unlike_sequences()
    static = StaticPass(decoder, decoder.new_store(101), PassShape(4, 4, 128), frozenset())
    static.fill(batch)
    with torch.no_grad():
        traced = torch.compile(static.run, backend="eager", dynamic=False, fullgraph=True)
        found = taken_out(traced(), batch)
    torch.testing.assert_close(found.logits, taken_out(static.run(), batch).logits, atol=1e-5, rtol=1e-5)
