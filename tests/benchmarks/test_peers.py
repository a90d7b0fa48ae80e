"""What peers are asked to do, and that they are believed only when they say that they do it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers.base import ModelFiles, Pair, Weights
from benchmarks.peers.forerun import ForerunPeer
from benchmarks.peers.llamacpp import LlamaCppPeer, LlamaCppServer, _parameters, require_slot
from benchmarks.peers.transformers import TransformersPeer
from benchmarks.peers.vllm import VllmPeer, _require_configuration, _speculative_config
from fake_peer import LAUNCH, setting

from benchmarks import http
from forerun.errors import ForerunError

DRAFT = ModelFiles("draft", Path("draft.gguf"), Path("draft"))
PAIR = Pair(ModelFiles("target", Path("target.gguf"), Path("target")), DRAFT)
PEERS = (ForerunPeer(), LlamaCppPeer(), TransformersPeer(), VllmPeer())


@contextmanager
def serving(answers: dict[str, Any]) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = (200, answers[self.path]) if self.path in answers else (404, "none")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("has_few", [True, False])
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_settings_are_distinct_and_begin_with_plain(peer: Any, has_few: bool) -> None:
    found = peer.settings(PAIR, has_few=has_few)
    assert found.run[0].is_plain and sum(s.is_plain for s in found.run) == 1
    assert len({s.label for s in found.run}) == len(found.run) and not found.left_out
    alone = peer.settings(replace(PAIR, draft=None), has_few=has_few)
    assert {s.method for s in found.run} - {s.method for s in alone.run} in ({"draft_model"}, {"assisted"})
    (reason,) = alone.left_out
    assert reason.reason == "no draft model was given"


def test_every_ngram_type_of_llama_cpp_is_there() -> None:
    methods = {s.method for s in LlamaCppPeer().settings(PAIR, has_few=True).run}
    assert {"ngram_simple", "ngram_map_k", "ngram_map_k4v", "ngram_mod", "ngram_cache", "draft_model"} <= methods


def test_without_a_gguf_file_llama_cpp_is_left_out_with_the_reason() -> None:
    found = LlamaCppPeer().settings(replace(PAIR, target=ModelFiles("t", None, Path("t"))), has_few=True)
    assert not found.run and "GGUF" in found.left_out[0].reason


def test_forerun_runs_gguf_arithmetic_apart_only_where_it_differs() -> None:
    same = ForerunPeer().settings(PAIR, has_few=True).run
    apart = ForerunPeer("auto").settings(PAIR, has_few=True).run
    assert {s.weights for s in same} == {Weights.BF16} and {s.weights for s in apart} == set(Weights)


def test_llama_cpp_parameters() -> None:
    launch = replace(LAUNCH, pair=PAIR, threads=3)
    plain = _parameters(setting("llama.cpp"), launch)
    assert plain["types"] == [] and plain["cpuparams.n_threads"] == 3 and plain["cache_prompt"] is False
    looked_up = _parameters(setting("llama.cpp", "ngram_simple", size_n=3), launch)
    assert looked_up["types"] == ["COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE"]
    assert looked_up["speculative.ngram_simple.size_n"] == 3
    drafted = _parameters(setting("llama.cpp", "draft_model", n=3), launch)
    assert drafted["types"] == ["COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE"]
    assert drafted["speculative.draft.mparams.path"] == "draft.gguf" and drafted["speculative.draft.n_max"] == 3


def slot(speculative: bool, types: str) -> dict[str, Any]:
    return {"speculative": speculative, "params": {"speculative.types": types}}


def test_llama_cpp_is_asked_whether_it_drafts() -> None:
    require_slot(setting("llama.cpp"), slot(False, "none"))
    require_slot(setting("llama.cpp", "draft_model", n=3), slot(True, "draft-simple"))
    for wrong in (slot(False, "draft-simple"), slot(True, "ngram-mod"), slot(False, "none")):
        with pytest.raises(ForerunError, match="draft-simple"):
            require_slot(setting("llama.cpp", "draft_model", n=3), wrong)
    with pytest.raises(ForerunError, match="none"):
        require_slot(setting("llama.cpp"), slot(True, "ngram-mod"))


class Child:
    """What a LlamaCppServer needs of its process."""

    def __init__(self, port: int) -> None:
        self.ready = {"address": f"http://127.0.0.1:{port}", "version": "x", "system": "AVX2"}


def completion(**timings: float) -> dict[str, Any]:
    counted = {"cache_n": 0, "predicted_ms": 500.0, "predicted_n": 4, **timings}
    return {"/completion": {"tokens": [1, 2, 3, 4], "timings": counted}}


def test_llama_cpp_answers_are_read_with_their_counts() -> None:
    with serving(completion(draft_n=5, draft_n_accepted=2)) as port:
        found = LlamaCppServer(Child(port), LAUNCH).generate(setting("llama.cpp"), (1,), 4)  # type: ignore[arg-type]
    assert (found.num_drafted, found.num_accepted, found.num_steps, found.decode_seconds) == (5, 2, 1, 0.5)
    with serving(completion(cache_n=3)) as port, pytest.raises(ForerunError, match="3 cached tokens"):
        LlamaCppServer(Child(port), LAUNCH).generate(setting("llama.cpp"), (1,), 4)  # type: ignore[arg-type]


def vllm(config: str) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"id": "m"}]}, "/server_info": {"vllm_config": config}}


def test_vllm_is_asked_what_it_runs() -> None:
    on = "speculative_config=SpeculativeConfig(method='ngram', num_spec_tokens=4), enable_prefix_caching=False"
    ngram = setting("vLLM", "ngram", n=4)
    with serving(vllm(on)) as port:
        _require_configuration(ngram, port, "m")
        with pytest.raises(ForerunError, match="end the other server"):
            _require_configuration(ngram, port, "another")
        with pytest.raises(ForerunError, match="speculative_config=None"):
            _require_configuration(setting("vLLM"), port, "m")
        with pytest.raises(ForerunError, match="num_spec_tokens=7"):
            _require_configuration(setting("vLLM", "ngram", n=7), port, "m")
    off = vllm("speculative_config=None, enable_prefix_caching=True")
    with serving(off) as port, pytest.raises(ForerunError, match="enable_prefix_caching=False"):
        _require_configuration(setting("vLLM"), port, "m")


def test_vllm_drafters_remember_nothing_of_other_requests() -> None:
    config = _speculative_config(setting("vLLM", "suffix", n=15), PAIR)
    assert config["suffix_decoding_max_cached_requests"] == 0 and config["num_speculative_tokens"] == 15
    assert _speculative_config(setting("vLLM", "draft_model", n=3), PAIR)["model"] == "draft"


def test_http_errors_say_what_came_instead() -> None:
    with serving({}) as port:
        with pytest.raises(ForerunError, match="404"):
            http.get(port, "/nothing")
        assert not http.is_healthy(port)
    with pytest.raises(ForerunError, match=r"refused|reset"):
        http.post(http.free_port(), "/completion", {}, 5)
