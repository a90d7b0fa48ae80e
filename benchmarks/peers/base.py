"""What every peer is: a name, an environment, the settings it is run with, and a server that answers prompts."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from benchmarks.environments import Environment


class Weights(Enum):
    """Which weights a setting runs: the blocks of the GGUF file, or the bf16 values that they stand for."""

    GGUF = "GGUF"
    BF16 = "bf16"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """One model: its GGUF file, where there is one, and a Hugging Face directory with the same weights in bf16."""

    name: str
    gguf: Path | None
    directory: Path

    @property
    def num_bytes(self) -> int:
        """Size of the weights in bf16."""
        return sum(path.stat().st_size for path in self.directory.glob("*.safetensors"))


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and, where there is one, its draft model."""

    target: ModelFiles
    draft: ModelFiles | None = None

    @property
    def name(self) -> str:
        """For titles and file names."""
        return self.target.name if self.draft is None else f"{self.target.name} + {self.draft.name}"

    @property
    def num_bytes(self) -> int:
        """Size of all weights in bf16."""
        return self.target.num_bytes + (self.draft.num_bytes if self.draft else 0)

    @property
    def num_gguf_bytes(self) -> int:
        """Size of all GGUF files."""
        files = [model.gguf for model in (self.target, self.draft) if model is not None and model.gguf is not None]
        return sum(path.stat().st_size for path in files)


@dataclass(frozen=True, slots=True)
class Tuning:
    """How an engine's threads run: what is fastest differs by engine and model, so peers get the best of several.

    ``wait`` is OpenMP's wait policy, empty for what the engine's library does by itself; ``flags`` are switches of the
    engine's own command line.
    """

    threads: int
    wait: str = ""
    flags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``2 threads, passive``."""
        count = f"{self.threads} thread" + ("s" if self.threads > 1 else "")
        return ", ".join([count, *([self.wait] if self.wait else []), *self.flags])


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run one peer. ``options`` are the peer's own names for what is set; ``off`` drafts nothing."""

    peer: str
    method: str
    weights: Weights
    options: tuple[tuple[str, int | str | float], ...] = ()
    tuning: Tuning | None = None

    @property
    def label(self) -> str:
        """``peer method option=value (weights; tuning)``, unique within a run."""
        shown = [f"{name}={value}" for name, value in self.options]
        kind = self.weights.value if self.tuning is None else f"{self.weights.value}; {self.tuning.label}"
        return " ".join([self.peer, self.method, *shown, f"({kind})"])

    @property
    def is_plain(self) -> bool:
        """Whether it drafts nothing."""
        return self.method == OFF


OFF = "plain"


@dataclass(frozen=True, slots=True)
class NotRun:
    """What could not be run, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What a peer is run with, and what it can't be run with for these models."""

    run: tuple[Setting, ...]
    left_out: tuple[NotRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """What all servers of a run share: models, threads, tokens of context, where logs go, time limits in seconds.

    ``is_over`` is set when the run ends: whatever is still starting then gives up.
    """

    pair: Pair
    threads: int
    context: int
    logs: Path
    start_seconds: float = 600.0
    answer_seconds: float = 300.0
    is_over: threading.Event = field(default_factory=threading.Event, compare=False)

    def tuning(self, setting: Setting) -> Tuning:
        """The setting's own, or as many threads as the run has, asleep while they wait."""
        return setting.tuning or Tuning(self.threads, "passive")


@dataclass(frozen=True, slots=True)
class Answer:
    """One prompt answered. ``seconds`` is the client's clock, prefill included.

    ``decode_seconds`` lie between the first token and the last, by the engine's own clock: no HTTP in them.
    ``num_steps`` are target passes after the one that gave the first token, where the peer tells.
    """

    token_ids: tuple[int, ...]
    seconds: float
    decode_seconds: float
    num_drafted: int = 0
    num_accepted: int = 0
    num_steps: int | None = None

    @property
    def tokens_per_second(self) -> float:
        """End to end."""
        return len(self.token_ids) / self.seconds

    @property
    def seconds_per_token(self) -> float | None:
        """Decoding alone; None of a single token."""
        rest = len(self.token_ids) - 1
        return self.decode_seconds / rest if rest > 0 else None


class Server(ABC):
    """A running peer. Whoever started it stops it."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process that leads all others of this server."""

    @abstractmethod
    def generate(self, setting: Setting, prompt: Sequence[int], num_tokens: int) -> Answer:
        """Greedy, exactly ``num_tokens`` tokens whatever they are, every cache and drafter memory cold.

        Raises ForerunError where the peer fails or gives another number of tokens.
        """

    @abstractmethod
    def next_token_logprobs(self, prompt: Sequence[int], num_most: int) -> dict[int, float]:
        """The most probable next tokens with their natural logarithms, before anything that sampling does."""

    @abstractmethod
    def suspend(self) -> None:
        """Takes the CPUs from every process of it: engines poll for a while after an answer, at others' expense."""

    @abstractmethod
    def resume(self) -> None:
        """Lets it go on; nothing happens to one that wasn't suspended."""

    @abstractmethod
    def stop(self) -> None:
        """Ends every process of it, suspended or not."""


class Peer(ABC):
    """An engine under comparison. ``is_restarted``: a cold drafter takes a fresh server for every prompt."""

    name: str
    environment: Environment | None
    is_restarted: bool = False

    @abstractmethod
    def settings(self, pair: Pair, *, has_few: bool) -> Settings:
        """The settings worth comparing for these models; with ``has_few`` the likeliest best of each method."""

    @abstractmethod
    def start(self, setting: Setting, launch: Launch) -> Server:
        """A server that runs this setting. Raises ForerunError where it won't start or isn't set as asked."""

    @abstractmethod
    def version(self) -> str:
        """Name and version of what runs, with what it says about its own build."""

    def tunings(self, threads: int) -> tuple[Tuning, ...]:
        """Those to choose from before anything is compared; none where there is nothing to choose."""
        return ()

    def server_key(self, setting: Setting) -> str:
        """Settings with equal keys are served by one server."""
        return setting.label

    def resident_bytes(self, setting: Setting, pair: Pair) -> int:
        """About how much memory a server takes: here that of bf16 weights, target and draft, under one torch."""
        return int(1.05 * pair.num_bytes) + (3 << 28)
