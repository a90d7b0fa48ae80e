"""Is it right there? Logits against fp32 on a CPU, texts with and without drafts, bits beside other rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from benchmarks.device.models import Model, RandomModel, tiny_models
from benchmarks.device.passes import logits_of, recorded_logits
from benchmarks.device.row import Row
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.models.arithmetic.arithmetic import EXACT, INEXACT
from forerun.models.base import Target
from forerun.models.recording.recorder import Recorder
from forerun.sampling.params import SamplingParams

CPU = torch.device("cpu")
ARITHMETICS = {"exact": EXACT, "inexact": INEXACT}
# Mean distance of logits over their spread: rounding of sums in another order, and of bf16 numbers.
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 0.05}
# Nats; what the project asks of a number type that isn't called lossy.
MAX_KL = 0.01
SLICE_ROWS = (1, 7, 16, 33, 64)


def tiny_parity(device: torch.device, dtypes: Sequence[torch.dtype]) -> Iterator[Row]:
    """Every kind of layer, prefilled in slices of 19 rows, against fp32 on the CPU."""
    for model in tiny_models():
        tokens = model.tokens(150)
        expected = logits_of(model.on(CPU, torch.float32, EXACT), tokens, 150)
        for dtype in dtypes:
            for name, arithmetic in ARITHMETICS.items():
                found = logits_of(model.on(device, dtype, arithmetic), tokens, 19)
                apart = float((found - expected).abs().mean() / expected.std())
                what = f"{model.name}, {name}, {_short(dtype)}"
                yield Row("parity", what, f"mean distance {apart:.1e} of the spread", apart <= TOLERANCES[dtype])


def parity(model: Model, targets: dict[str, Target], num_tokens: int) -> Iterator[Row]:
    """The model's laws on the device against those in fp32 on the CPU."""
    reference = model.on(CPU, torch.float32, EXACT)
    tokens = model.tokens(num_tokens)
    p = logits_of(reference, tokens, 128).double().log_softmax(-1)
    for name, target in targets.items():
        q = logits_of(target, tokens, 128).double().log_softmax(-1)
        kl = float((p.exp() * (p - q)).sum(-1).mean())
        same = float((p.argmax(-1) == q.argmax(-1)).double().mean())
        detail = f"mean KL {kl:.1e} nats, top-1 {same:.1%} of {len(tokens)} positions"
        yield Row("parity", f"{name}, {target.traits.dtype}", detail, kl <= MAX_KL)


def same_text(model: Model, targets: dict[str, Target], max_tokens: int) -> Iterator[Row]:
    """Texts with drafts against the text without: promised on a CPU, looked at here."""
    prompts = [model.tokens(count) for count in (48, 81)]
    settings = {"T = 0": SamplingParams(), "T = 0.8": SamplingParams(temperature=0.8, seed=11)}
    draftings = {
        "ngram, N = 4": Drafting("ngram", 4),
        "suffix, N = 8": Drafting("suffix", 8),
        "suffix tree, N = 6": Drafting("suffix", 6, is_tree=True),
    }
    for arithmetic, target in targets.items():
        for temperature, params in settings.items():
            wanted = SamplingParams(params.temperature, seed=params.seed, max_tokens=max_tokens, ignore_eos=True)
            plain = _texts(target, Drafting(), prompts, wanted)
            for name, drafting in draftings.items():
                drafted = _texts(target, drafting, prompts, wanted)
                yield Row("same text", f"{arithmetic}, {temperature}, {name}", _compared(plain, drafted))


def independence(model: Model, targets: dict[str, Target], num_tokens: int) -> Iterator[Row]:
    """Whether the bits of a row's logits are those that it has in a pass by itself."""
    tokens = model.tokens(num_tokens)
    for name, target in targets.items():
        alone = logits_of(target, tokens, 1)
        for slice_rows in SLICE_ROWS:
            beside = logits_of(target, tokens, slice_rows)
            num_same = int((alone == beside).all(-1).sum())
            largest = float((alone - beside).abs().max())
            detail = f"{num_same} of {len(tokens)} rows have the same bits, largest difference {largest:.1e}"
            yield Row("rows' independence", f"{name}, slices of {slice_rows}", detail)


def recordings(device: torch.device, recorder: Recorder, models: Sequence[RandomModel]) -> Iterator[Row]:
    """One recording, played for every slice, against the decoder as it is."""
    for model in models:
        tokens = model.tokens(60)
        decoder = model.on(device, torch.float32, INEXACT)
        expected = logits_of(decoder, tokens, 4)
        apart = float((recorded_logits(decoder, recorder, tokens, 4) - expected).abs().mean() / expected.std())
        detail = f"mean distance {apart:.1e} of the spread"
        yield Row("recordings", f"{model.name}, {recorder.name}", detail, apart <= TOLERANCES[torch.float32])


def _texts(
    target: Target, drafting: Drafting, prompts: Sequence[list[int]], params: SamplingParams
) -> list[tuple[int, ...]]:
    engine = Engine(target, drafting, cache_tokens=1024)
    return [completion.token_ids for completion in engine.generate(prompts, params)]


def _compared(plain: Sequence[tuple[int, ...]], drafted: Sequence[tuple[int, ...]]) -> str:
    parted = [
        next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), None)
        for one, other in zip(plain, drafted, strict=True)
    ]
    where = [str(at) for at in parted if at is not None]
    same = f"{len(parted) - len(where)} of {len(parted)} texts are the same"
    return f"{same}; others part at token {', '.join(where)}" if where else same


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
