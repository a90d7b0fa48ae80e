"""What runs a trial: an engine that takes prompts, a way of drafting and a concurrency, and hands back raw records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from forerun.engine.drafting import Drafting
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts, Timings
from forerun.workloads.prompt import Prompt


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request as it went. Times are seconds from its submission; ``token_times`` one per token.

    ``prompt_ids`` and ``token_ids`` are the raw request and response; tokens of one round share a time.
    """

    prompt_id: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    seed: int
    num_cached_tokens: int
    seconds: float
    token_times: tuple[float, ...]
    counts: RoundCounts
    timings: Timings


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """All requests of one trial in the order of the prompts, and the wall time from the first to the last."""

    requests: tuple[RequestRecord, ...]
    seconds: float


class Backend(ABC):
    """An engine under trial. Each run starts cold: empty caches and corpora, unless ``warm_corpus`` is given."""

    name: str

    @abstractmethod
    def run(
        self,
        prompts: Sequence[Prompt],
        drafting: Drafting,
        params: SamplingParams,
        *,
        concurrency: int,
        drafter: str = "",
        warm_corpus: Sequence[Sequence[int]] = (),
    ) -> TrialRecord:
        """Closed loop: ``concurrency`` requests in flight until all are done.

        ``drafter`` names a drafter artifact that the backend was given. Raises ``ForerunError`` for what the engine
        can't do.
        """
