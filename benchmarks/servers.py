"""Which servers are up: as many as memory holds at a time, one of them awake, every one of them ended at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import psutil

from benchmarks.peers.base import Launch, NotRun, Peer, Server, Setting
from forerun.errors import ForerunError

# Of the memory that is free when a run begins.
MEMORY_SHARE = 0.85
_WARM_UP_TOKENS = 16
_NUM_STARTING = 3


class Servers:
    """``with Servers(...) as servers``. A setting that fails is listed in ``not_run``, once, and not tried again."""

    def __init__(
        self,
        peers: Mapping[str, Peer],
        launch: Launch,
        warm_up_prompt: Sequence[int],
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._peers = peers
        self._launch = launch
        self._warm_up_prompt = warm_up_prompt
        self._report = report
        # Linux takes the end of the thread that started a process for the end of its parent: these threads stay.
        self._starters = ThreadPoolExecutor(_NUM_STARTING)
        self._running: dict[str, Server] = {}
        self._started: dict[str, Setting] = {}
        self._warm: set[Setting] = set()
        self.not_run: dict[Setting, NotRun] = {}

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._launch.is_over.set()
        self.keep(())
        self._starters.shutdown(cancel_futures=True)
        # Whatever came up while a run was being stopped.
        self.keep(())

    def is_restarted(self, setting: Setting) -> bool:
        """Whether this setting's server lives for one prompt."""
        return self._peers[setting.peer].is_restarted

    def keep(self, settings: Collection[Setting]) -> None:
        """Stops every server that none of these settings needs."""
        needed = {self._key(setting) for setting in settings}
        for key in [key for key in self._running if key not in needed]:
            self._warm = {setting for setting in self._warm if self._key(setting) != key}
            self._running.pop(key).stop()

    def start(self, settings: Sequence[Setting]) -> None:
        """Starts what these settings need, several at a time: starting is no part of any figure.

        Others stay up, suspended, as far as memory holds them: some take a minute to start.
        """
        self._make_room(settings)
        first = {self._key(setting): setting for setting in settings if not self.is_restarted(setting)}
        for server in self._running.values():
            server.resume()
        list(self._starters.map(self._warmed_up, first.values()))

    def _make_room(self, settings: Sequence[Setting]) -> None:
        needed = {self._key(setting) for setting in settings}
        staying = [setting for key, setting in self._started.items() if key in self._running and key not in needed]
        room = self._num_bytes_of_room()
        while staying and self._num_bytes([*settings, *staying]) > room:
            self.drop(staying.pop(0))

    def ready(self, setting: Setting) -> Server | None:
        """A warm server of this setting, fresh where it must be; None where it can't be had.

        Every other one is suspended: what engines poll for while they are idle is no part of anybody's figure.
        """
        if self.is_restarted(setting):
            self.drop(setting)
        for key, server in self._running.items():
            if key == self._key(setting):
                server.resume()
            else:
                server.suspend()
        return self._warmed_up(setting)

    def _warmed_up(self, setting: Setting) -> Server | None:
        if setting in self.not_run:
            return None
        key = self._key(setting)
        try:
            if key not in self._running:
                if not self.is_restarted(setting):
                    self._report(f"starting {setting.label}")
                self._running[key] = self._peers[setting.peer].start(setting, self._launch)
                self._started[key] = setting
            if setting not in self._warm:
                self._running[key].generate(setting, self._warm_up_prompt, _WARM_UP_TOKENS)
                self._warm.add(setting)
        except ForerunError as error:
            self.fail(setting, error)
            return None
        return self._running[key]

    def drop(self, setting: Setting) -> None:
        """Stops this setting's server, if it is up."""
        key = self._key(setting)
        self._warm = {other for other in self._warm if self._key(other) != key}
        if server := self._running.pop(key, None):
            server.stop()

    def fail(self, setting: Setting, error: ForerunError) -> None:
        """Remembers why a setting could not be run, and starts its server anew for the others."""
        self.not_run[setting] = NotRun(setting.label, str(error))
        self._report(f"not run: {setting.label}: {error}")
        self.drop(setting)

    def waves(self, constant: Sequence[Setting], others: Sequence[Setting]) -> list[list[Setting]]:
        """``others`` in groups whose servers fit into memory together, ``constant`` in each of them."""
        room = self._num_bytes_of_room()
        waves: list[list[Setting]] = []
        for setting in others:
            wanted = self._num_bytes([*waves[-1], setting]) if waves else 0
            # A setting whose server is up already costs nothing, however full memory is.
            if not waves or wanted > max(room, self._num_bytes(waves[-1])):
                waves.append(list(constant))
            waves[-1].append(setting)
        return waves or [list(constant)]

    def _num_bytes(self, settings: Sequence[Setting]) -> int:
        """Of the servers that are up at one time: restarted ones take turns, the largest counts."""
        by_key = {
            "turns" if self.is_restarted(setting) else self._key(setting): self._peers[setting.peer].resident_bytes(
                setting, self._launch.pair
            )
            for setting in settings
        }
        return sum(by_key.values())

    def _num_bytes_of_room(self) -> float:
        """What is free, and what would be if no server were up."""
        total = int(psutil.virtual_memory().available)
        for server in self._running.values():
            try:
                leader = psutil.Process(server.pid)
                members = [leader, *leader.children(recursive=True)]
                total += sum(member.memory_info().rss for member in members)
            except psutil.NoSuchProcess:
                continue
        return MEMORY_SHARE * total

    def _key(self, setting: Setting) -> str:
        return self._peers[setting.peer].server_key(setting)
