"""What a CUDA graph is, on a CPU: operations on fixed memory, played again without the Python that called them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from forerun.models.base import PassOutput
from forerun.models.recording.recorder import Recorder, Run


class Tape(TorchDispatchMode):
    """Keeps every operation with its arguments and results; a number read on the way is an error, as in a capture."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Sequence[Any], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        assert func is not torch.ops.aten._local_scalar_dense.default, "a capture can't wait for the device"
        out = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, out))
        return out

    def play(self) -> None:
        """Every operation again, its result written where it lay. Views and changed arguments lie there already."""
        for func, args, kwargs, old in self.operations:
            new = func(*args, **kwargs)
            for there, here in zip(tree_leaves(old), tree_leaves(new), strict=True):
                if isinstance(there, torch.Tensor) and there.numel() and there.data_ptr() != here.data_ptr():
                    there.copy_(here)


class TapeRecorder(Recorder):
    """Records on a tape and counts what is played."""

    name = "tape"

    def __init__(self) -> None:
        self.num_recorded = 0
        self.num_played = 0

    def record(self, run: Run) -> Run:
        """See ``Recorder``."""
        self.num_recorded += 1
        with Tape() as tape:
            output = run()

        def replay() -> PassOutput:
            self.num_played += 1
            tape.play()
            return output

        return replay
