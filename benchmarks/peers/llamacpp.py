"""llama.cpp's own server, as the ``xllamacpp`` wheel packs it, on the GGUF file itself."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from benchmarks import http
from benchmarks.environments import Environment
from benchmarks.peers.base import (
    OFF,
    Answer,
    Launch,
    NotRun,
    Pair,
    Peer,
    Server,
    Setting,
    Settings,
    Tuning,
    Weights,
)
from benchmarks.peers.line_server import LineServer, child_command, environment_of, require_length
from forerun.errors import ForerunError

_TYPES = ("ngram_simple", "ngram_map_k", "ngram_map_k4v", "ngram_mod", "ngram_cache")
# Defaults are made for long rewrites and hardly ever fire on short texts; the others suit prompts like these.
_SHORTER = {
    "ngram_simple": (("size_n", 3), ("size_m", 15)),
    "ngram_map_k": (("size_n", 3), ("size_m", 15)),
    "ngram_map_k4v": (("size_n", 3), ("size_m", 15)),
    "ngram_mod": (("n_match", 4), ("n_min", 1), ("n_max", 15)),
}
_DRAFT_N = {True: (3,), False: (1, 3, 7)}


class LlamaCppServer(Server):
    """One configuration and one slot."""

    def __init__(self, child: LineServer, launch: Launch) -> None:
        self._child = child
        self._limit = launch.answer_seconds
        self.port = urlsplit(str(child.ready["address"])).port or 0
        self.build = f"{child.ready['version']}, {child.ready['system']}"

    @property
    def pid(self) -> int:
        """See ``Server``."""
        return self._child.pid

    def slot_after_a_token(self) -> dict[str, Any]:
        """What the server says of its slot, the only place that tells whether it really drafts, and not before work."""
        http.post(self.port, "/completion", {"prompt": [1], "n_predict": 1, "cache_prompt": False}, self._limit)
        (slot,) = http.get(self.port, "/slots")
        return dict(slot)

    def generate(self, setting: Setting, prompt: Sequence[int], num_tokens: int) -> Answer:
        """See ``Server``."""
        body = {
            "prompt": list(prompt),
            "n_predict": num_tokens,
            "temperature": 0.0,
            "samplers": ["temperature"],
            "ignore_eos": True,
            "cache_prompt": False,
            "return_tokens": True,
        }
        start = time.perf_counter()
        found = http.post(self.port, "/completion", body, self._limit)
        seconds = time.perf_counter() - start
        require_length(setting, found["tokens"], num_tokens)
        timings = found["timings"]
        if timings["cache_n"]:
            raise ForerunError("a cold prefix cache", f"{timings['cache_n']} cached tokens", "see the server's log")
        accepted = int(timings.get("draft_n_accepted", 0))
        return Answer(
            tuple(found["tokens"]),
            seconds,
            timings["predicted_ms"] / 1000,
            int(timings.get("draft_n", 0)),
            accepted,
            int(timings["predicted_n"]) - 1 - accepted,
        )

    def next_token_logprobs(self, prompt: Sequence[int], num_most: int) -> dict[int, float]:
        """See ``Server``."""
        body = {"prompt": list(prompt), "n_predict": 1, "temperature": 0.0, "n_probs": num_most, "cache_prompt": False}
        found = http.post(self.port, "/completion", body, self._limit)
        (first,) = found["completion_probabilities"]
        return {int(entry["id"]): float(entry["logprob"]) for entry in first["top_logprobs"]}

    def suspend(self) -> None:
        """See ``Server``."""
        self._child.suspend()

    def resume(self) -> None:
        """See ``Server``."""
        self._child.resume()

    def stop(self) -> None:
        """See ``Server``."""
        self._child.stop()


class LlamaCppPeer(Peer):
    """A fresh server for every prompt: ``ngram-mod`` and ``ngram-cache`` remember what earlier prompts said."""

    name = "llama.cpp"
    environment = Environment("llamacpp", ("xllamacpp==2026.10.11549",), imports="import xllamacpp")
    is_restarted = True

    def __init__(self) -> None:
        self._build = ""

    def settings(self, pair: Pair, *, has_few: bool) -> Settings:
        """See ``Peer``: every ngram type set for short texts and, in a full run, as it ships too."""
        if pair.target.gguf is None:
            return Settings((), (NotRun(self.name, "it reads GGUF files, and the target isn't one"),))
        run = [Setting(self.name, OFF, Weights.GGUF)]
        for kind in _TYPES:
            shipped = Setting(self.name, kind, Weights.GGUF)
            shorter = Setting(self.name, kind, Weights.GGUF, _SHORTER[kind]) if kind in _SHORTER else None
            run += [shipped] if shorter is None else [shorter] if has_few else [shipped, shorter]
        if pair.draft is None or pair.draft.gguf is None:
            reason = "no draft model was given" if pair.draft is None else "the draft model isn't a GGUF file"
            return Settings(tuple(run), (NotRun(f"{self.name} draft model", reason),))
        run += [Setting(self.name, "draft_model", Weights.GGUF, (("n", n),)) for n in _DRAFT_N[has_few]]
        return Settings(tuple(run))

    def tunings(self, threads: int) -> tuple[Tuning, ...]:
        """See ``Peer``: its threads meet after every operation, and sleeping at each meeting costs it dearly."""
        found = [Tuning(1), Tuning(threads), Tuning(threads, "active"), Tuning(threads, "passive")]
        return tuple(dict.fromkeys(found))

    def start(self, setting: Setting, launch: Launch) -> LlamaCppServer:
        """See ``Peer``. The slot must say that it drafts, and with which type, exactly as asked."""
        parameters = json.dumps(_parameters(setting, launch))
        command = child_command(self.environment.python, "llamacpp_child", parameters)
        child = LineServer("llamacpp", command, environment_of(launch.tuning(setting)), launch)
        server = LlamaCppServer(child, launch)
        try:
            require_slot(setting, server.slot_after_a_token())
        except BaseException:
            server.stop()
            raise
        self._build = server.build
        return server

    def version(self) -> str:
        """See ``Peer``, with the instruction sets that the wheel was built for."""
        return self._build or f"xllamacpp {self.environment.installed()['xllamacpp']}"

    def resident_bytes(self, setting: Setting, pair: Pair) -> int:
        """See ``Peer``: the file, laid out anew, and small buffers."""
        return 2 * pair.num_gguf_bytes + (1 << 29)


def require_slot(setting: Setting, slot: Mapping[str, Any]) -> None:
    """Raises ForerunError unless the slot drafts as asked: a draft that doesn't fit is dropped with a log line."""
    found = (bool(slot["speculative"]), str(slot["params"]["speculative.types"]))
    if found != (wanted := (not setting.is_plain, _type_name(setting))):
        raise ForerunError(f"a slot with (speculative, types) {wanted}", f"{found}", "see the server's log")


def _type_name(setting: Setting) -> str:
    if setting.is_plain:
        return "none"
    return "draft-simple" if setting.method == "draft_model" else setting.method.replace("_", "-")


def _parameters(setting: Setting, launch: Launch) -> dict[str, Any]:
    """Paths into ``CommonParams`` and their values."""
    pair, threads = launch.pair, launch.tuning(setting).threads
    found: dict[str, Any] = {
        "types": [],
        "model.path": str(pair.target.gguf),
        "n_ctx": launch.context,
        "n_parallel": 1,
        "cpuparams.n_threads": threads,
        "cpuparams_batch.n_threads": threads,
        "cache_prompt": False,
        "cache_ram_mib": 0,
        "fit_params": False,
        "port": 0,
        "verbosity": 2,
    }
    if setting.is_plain:
        return found
    found["types"] = ["COMMON_SPECULATIVE_TYPE_" + _type_name(setting).upper().replace("-", "_")]
    if setting.method == "draft_model":
        assert pair.draft is not None
        found |= {
            "speculative.draft.mparams.path": str(pair.draft.gguf),
            "speculative.draft.cpuparams.n_threads": threads,
            "speculative.draft.cpuparams_batch.n_threads": threads,
            "speculative.draft.n_max": dict(setting.options)["n"],
        }
        return found
    return found | {f"speculative.{setting.method}.{name}": value for name, value in setting.options}
