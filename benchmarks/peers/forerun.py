"""Ourselves, in a child process like every peer."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks
import forerun
from benchmarks.peers.base import OFF, Launch, NotRun, Pair, Peer, Server, Setting, Settings, Weights
from benchmarks.peers.line_server import LineServer, child_command, environment_of

_N = {"ngram": (3, 7), "suffix": (7, 15)}
_MORE_N = {"ngram": (3, 7, 15), "suffix": (3, 7, 15)}
_DRAFT_MODEL_N = {True: (3, 7), False: (1, 3, 7)}


class ForerunServer(LineServer):
    """Loads the GGUF file or the directory, whichever the setting's weights are."""

    def natural_answer(self, prompt: Sequence[int], max_tokens: int) -> list[int]:
        """What plain decoding says until it ends by itself: how long an answer to this prompt is."""
        found = self.ask(
            "generate", prompt=list(prompt), num_tokens=max_tokens, method=OFF, options={}, ends_naturally=True
        )
        return [int(token) for token in found["token_ids"]]


class ForerunPeer(Peer):
    """``gguf_dtype`` is the arithmetic on GGUF weights; bfloat16 makes it the same as on the exported directory."""

    name = "forerun"
    environment = None

    def __init__(self, gguf_dtype: str = "bfloat16") -> None:
        self.gguf_dtype = gguf_dtype

    def settings(self, pair: Pair, *, has_few: bool) -> Settings:
        """See ``Peer``. Both kinds of weights only where they are computed differently."""
        kinds = [Weights.BF16]
        if pair.target.gguf is not None and self.gguf_dtype != "bfloat16":
            kinds.append(Weights.GGUF)
        run = []
        for weights in kinds:
            run.append(Setting(self.name, OFF, weights))
            for method, numbers in (_N if has_few else _MORE_N).items():
                run += [Setting(self.name, method, weights, (("n", n),)) for n in numbers]
            if pair.draft is not None:
                run += [Setting(self.name, "draft_model", weights, (("n", n),)) for n in _DRAFT_MODEL_N[has_few]]
        left_out = () if pair.draft else (NotRun(f"{self.name} draft_model", "no draft model was given"),)
        return Settings(tuple(run), left_out)

    def server_key(self, setting: Setting) -> str:
        """See ``Peer``: all methods share one process."""
        return f"{self.name}-{setting.weights.value}"

    def start(self, setting: Setting, launch: Launch) -> Server:
        """See ``Peer``."""
        return self.start_with("bfloat16" if setting.weights is Weights.BF16 else self.gguf_dtype, setting, launch)

    def start_with(self, dtype: str, setting: Setting, launch: Launch) -> ForerunServer:
        """The same in another number type: fp32 is what divergences are taken from."""
        pair = launch.pair
        is_gguf = pair.target.gguf is not None and (setting.weights is Weights.GGUF or dtype == "float32")
        target = pair.target.gguf if is_gguf else pair.target.directory
        command = child_command(sys.executable, "forerun_child", "--target", str(target), "--dtype", dtype)
        command += ["--threads", str(launch.threads)]
        if pair.draft is not None and dtype != "float32":
            # A draft changes no text, so the draft model computes as cheaply as it can beside a target of any type.
            draft_dtype = self.gguf_dtype if pair.draft.gguf is not None else dtype
            command += ["--draft", str(pair.draft.gguf or pair.draft.directory), "--draft-dtype", draft_dtype]
        # The forerun that runs this command, installed or not.
        paths = os.pathsep.join(str(Path(module.__file__ or "").parents[1]) for module in (benchmarks, forerun))
        settings = environment_of(launch.tuning(setting), {"PYTHONPATH": paths})
        return ForerunServer(f"{self.name}-{dtype}", command, settings, launch)

    def resident_bytes(self, setting: Setting, pair: Pair) -> int:
        """See ``Peer``; 4-bit blocks stay as they are, and any other arithmetic on them is about as large as bf16."""
        if setting.weights is Weights.GGUF and self.gguf_dtype == "as-shipped":
            return int(1.3 * pair.num_gguf_bytes) + (1 << 30)
        return super().resident_bytes(setting, pair)

    def version(self) -> str:
        """See ``Peer``."""
        return f"forerun {importlib.metadata.version('forerun')}, torch {importlib.metadata.version('torch')}"
