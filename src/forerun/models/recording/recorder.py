"""Ways to play a pass again for less than it cost the first time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

from forerun.models.base import PassOutput

Run = Callable[[], PassOutput]

NUM_WARM_UPS = 3


class Recorder(ABC):
    """Makes something that does what ``run`` does, from the same memory and into the same memory every time."""

    name: str

    @abstractmethod
    def record(self, run: Run) -> Run:
        """``run`` allocates what it needs, and only reads and writes tensors that stay where they are."""


class CudaGraphs(Recorder):
    """CUDA and ROCm: the launches of a pass as one. All graphs share one pool of memory, since one runs at a time."""

    name = "graph"

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, run: Run) -> Run:
        """See ``Recorder``. Warmed up on a stream of its own, as torch asks for."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(NUM_WARM_UPS):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = run()

        def replay() -> PassOutput:
            graph.replay()
            return output

        return replay


class Compiled(Recorder):
    """``torch.compile`` for one shape. What it makes is kept on disk by torch, so another process compiles faster.

    torch gives up after eight shapes (``torch._dynamo.config.recompile_limit``) and runs the rest as they are.
    """

    name = "compiled"

    def record(self, run: Run) -> Run:
        """See ``Recorder``. Takes seconds to minutes."""
        compiled = torch.compile(run, dynamic=False)
        compiled()
        return compiled
