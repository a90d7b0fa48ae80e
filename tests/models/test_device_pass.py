"""A pass on a device: what it needs lies there before it begins, and nothing in it waits for the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from forerun.models.arithmetic.arithmetic import EXACT, INEXACT, Arithmetic
from forerun.models.decoder import Decoder
from forerun.models.device_pass import moved_together
from forerun.types import Tap, TapKind
from support.on_device import decoder_on, unlike_sequences
from support.passes import run_chunked
from support.tiny_models import random_tokens

META = torch.device("meta")
DEVICES = [kind for kind in ("cuda", "mps") if getattr(torch, kind).is_available()]
ON_DEVICE = pytest.mark.parametrize("kind", DEVICES or [pytest.param("", marks=pytest.mark.skip("no GPU here"))])


class CopiesFromHost(TorchDispatchMode):
    """Counts the operations that bring a tensor of the CPU elsewhere."""

    num_copies = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        devices = {value.device.type for value in (*args, out) if isinstance(value, torch.Tensor)}
        self.num_copies += len(devices) > 1
        return out


@pytest.mark.parametrize("arithmetic", [EXACT, INEXACT], ids=["exact", "inexact"])
@pytest.mark.parametrize("window", [None, 9])
def test_a_pass_never_waits_for_the_device(arithmetic: Arithmetic, window: int | None) -> None:
    """The meta device has no numbers: a pass that read one back, or mixed in a tensor of the host, would fail."""
    decoder = decoder_on(META, arithmetic, window=window)
    batch = unlike_sequences()
    taps = frozenset({Tap.of_block(1), Tap(TapKind.AFTER_FINAL_NORM)})
    for kv_dtype in (torch.float32, torch.bfloat16, torch.int8):
        out = decoder.forward(batch, decoder.new_store(100, kv_dtype), taps)
        assert out.logits.shape == (len(batch.logit_rows), decoder.config.vocab_size)
        assert {states.shape for states in out.taps.values()} == {(len(batch.owners), decoder.config.hidden_size)}


@pytest.mark.parametrize("arithmetic", [EXACT, INEXACT], ids=["exact", "inexact"])
def test_layers_copy_nothing_from_the_host(arithmetic: Arithmetic) -> None:
    def copies(num_layers: int) -> int:
        decoder = decoder_on(META, arithmetic, num_layers=num_layers)
        store = decoder.new_store(100)
        with CopiesFromHost() as counted:
            laid_out = decoder.lay_out(unlike_sequences())
        assert counted.num_copies > 0, "the layout comes from the host"
        with CopiesFromHost() as in_pass:
            decoder.run(laid_out, store)
        assert in_pass.num_copies == 0
        return counted.num_copies

    assert copies(2) == copies(6) <= 6


def test_what_moves_together_arrives_apart() -> None:
    parts = [torch.arange(6).view(2, 3), torch.empty(0, dtype=torch.int64), torch.tensor([7])]
    moved = moved_together(parts, META)
    assert [part.shape for part in moved] == [part.shape for part in parts]
    assert {part.device.type for part in moved} == {"meta"}
    assert all(here is part for here, part in zip(moved_together(parts, torch.device("cpu")), parts))


@ON_DEVICE
@pytest.mark.parametrize("arithmetic", [EXACT, INEXACT], ids=["exact", "inexact"])
@pytest.mark.parametrize("window", [None, 9])
def test_a_device_says_what_the_cpu_says(kind: str, arithmetic: Arithmetic, window: int | None) -> None:
    tokens = [token % 31 for token in random_tokens(150)]
    run: Callable[[Decoder], torch.Tensor] = lambda decoder: run_chunked(decoder, tokens, 19).cpu()  # noqa: E731
    expected = run(decoder_on(torch.device("cpu"), EXACT, window=window))
    found = run(decoder_on(torch.device(kind), arithmetic, window=window))
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
