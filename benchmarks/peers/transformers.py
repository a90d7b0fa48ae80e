"""Hugging Face transformers: ``generate`` plain, with prompt lookup, and with an assistant model."""

from __future__ import annotations

from benchmarks.environments import Environment
from benchmarks.peers.base import OFF, Launch, NotRun, Pair, Peer, Server, Setting, Settings, Tuning, Weights
from benchmarks.peers.line_server import LineServer, child_command, environment_of
from forerun.errors import ForerunError

_LOOKUP = {True: ((10, 2),), False: ((3, 2), (10, 2), (10, 4))}
_ASSISTED: dict[bool, tuple[tuple[tuple[str, int], ...], ...]] = {
    True: ((("n", 3),),),
    False: ((), (("n", 3),), (("n", 7),)),
}


class TransformersPeer(Peer):
    """Runs the exported bf16 directory. Nothing is remembered from one prompt to the next."""

    name = "transformers"
    environment = Environment(
        "transformers", ("torch==2.13.0", "transformers==5.24.0", "safetensors"), imports="import transformers"
    )

    def settings(self, pair: Pair, *, has_few: bool) -> Settings:
        """See ``Peer``."""
        run = [Setting(self.name, OFF, Weights.BF16)]
        for n, max_n in _LOOKUP[has_few]:
            run.append(Setting(self.name, "prompt_lookup", Weights.BF16, (("n", n), ("max_n", max_n))))
        if pair.draft is None:
            return Settings(tuple(run), (NotRun(f"{self.name} assisted", "no draft model was given"),))
        run += [Setting(self.name, "assisted", Weights.BF16, options) for options in _ASSISTED[has_few]]
        return Settings(tuple(run))

    def tunings(self, threads: int) -> tuple[Tuning, ...]:
        """See ``Peer``."""
        return tuple(dict.fromkeys([Tuning(1), Tuning(threads), Tuning(threads, "passive")]))

    def server_key(self, setting: Setting) -> str:
        """See ``Peer``: one process has both models and runs every form."""
        return f"{self.name} {setting.tuning}"

    def start(self, setting: Setting, launch: Launch) -> Server:
        """See ``Peer``."""
        pair, tuning = launch.pair, launch.tuning(setting)
        command = child_command(self.environment.python, "transformers_child")
        command += ["--target", str(pair.target.directory), "--threads", str(tuning.threads)]
        if pair.draft is not None:
            command += ["--draft", str(pair.draft.directory)]
        server = LineServer(self.name, command, environment_of(tuning), launch)
        wanted = {"threads": tuning.threads, "dtype": "torch.bfloat16"}
        found = {name: server.ready[name] for name in wanted}
        if found != wanted:
            server.stop()
            raise ForerunError(f"transformers with {wanted}", f"{found}", "see its log")
        return server

    def version(self) -> str:
        """See ``Peer``."""
        installed = self.environment.installed()
        return f"transformers {installed['transformers']}, torch {installed['torch']}"
