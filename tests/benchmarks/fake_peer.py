"""Peers without processes: answers take as long as they are told to, and so does the machine's other work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.base import Answer, Launch, ModelFiles, Pair, Peer, Server, Setting, Settings, Tuning, Weights
from benchmarks.prompts import TokenPrompt

from forerun.errors import ForerunError
from forerun.sweep.load_guard import LoadSample

PAIR = Pair(ModelFiles("target", Path("target.gguf"), Path("target")))
LAUNCH = Launch(PAIR, threads=1, context=256, logs=Path("logs"))
PROMPTS = [TokenPrompt(f"p{index}", "code", (1, 2, index), (5, 6, 7, 8)) for index in range(4)]


def setting(peer: str, method: str = "plain", weights: Weights = Weights.BF16, **options: int) -> Setting:
    """Short for tests."""
    return Setting(peer, method, weights, tuple(options.items()))


def answer(seconds: float, tokens: Sequence[int] = (5, 6, 7, 8), decoding: float = 0.0) -> Answer:
    """Every token but the first took one step."""
    return Answer(tuple(tokens), seconds, decoding, num_steps=len(tokens) - 1)


@dataclass
class FakeServer(Server):
    """``asked`` collects (setting, prompt) in order."""

    peer: FakePeer
    number: int
    is_stopped: bool = False
    is_awake: bool = True

    @property
    def pid(self) -> int:
        return 0

    def generate(self, setting: Setting, prompt: Sequence[int], num_tokens: int) -> Answer:
        assert not self.is_stopped and self.is_awake
        self.peer.asked.append((self.number, setting.method, tuple(prompt)))
        return self.peer.answers(setting, tuple(prompt))

    def next_token_logprobs(self, prompt: Sequence[int], num_most: int) -> dict[int, float]:
        return {1: -0.1, 2: -2.5}

    def suspend(self) -> None:
        self.is_awake = False

    def resume(self) -> None:
        self.is_awake = True

    def stop(self) -> None:
        self.is_stopped = True


@dataclass
class FakePeer(Peer):
    """``answers`` gives or raises; ``methods`` share one server unless they are listed in ``apart``."""

    name: str
    methods: tuple[str, ...] = ("plain",)
    answers: Callable[[Setting, tuple[int, ...]], Answer] = lambda setting, prompt: answer(1.0)
    is_restarted: bool = False
    apart: bool = False
    num_bytes: int = 1
    fails_to_start: bool = False
    tunable: tuple[Tuning, ...] = ()
    started: list[FakeServer] = field(default_factory=list)
    asked: list[tuple[int, str, tuple[int, ...]]] = field(default_factory=list)
    environment = None

    def settings(self, pair: Pair, *, has_few: bool) -> Settings:
        return Settings(tuple(setting(self.name, method) for method in self.methods))

    def start(self, setting: Setting, launch: Launch) -> Server:
        if self.fails_to_start:
            raise ForerunError("a server", "none", "install it")
        self.started.append(FakeServer(self, len(self.started)))
        return self.started[-1]

    def tunings(self, threads: int) -> tuple[Tuning, ...]:
        return self.tunable

    def version(self) -> str:
        return f"{self.name} 1"

    def server_key(self, setting: Setting) -> str:
        return setting.label if self.apart else self.name

    def resident_bytes(self, setting: Setting, pair: Pair) -> int:
        return self.num_bytes


class Machine:
    """Each reading is a second after the one before; ``busy`` says for each answer how many CPUs others took."""

    def __init__(self, busy: Sequence[float] = ()) -> None:
        self._busy = list(busy)
        self._at = 0.0
        self._foreign = 0.0
        self._is_before = True

    def __call__(self, pid: int) -> LoadSample:
        self._at += 1.0
        if not self._is_before:
            self._foreign += self._busy.pop(0) if self._busy else 0.0
        self._is_before = not self._is_before
        return LoadSample(self._at, 0.0, self._foreign, 0.0, 0, 1)
