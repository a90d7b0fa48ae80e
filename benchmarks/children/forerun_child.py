"""forerun behind lines: a fresh engine for every prompt, so that caches and drafters are cold."""

import argparse
import gc
import time
from typing import Any

import torch

from benchmarks.children.lines import serve
from forerun import Drafting, Engine, SamplingParams
from forerun.drafters.method import DraftModel
from forerun.engine.request import FinishReason
from forerun.models.loading.load_target import load_target

BLOCK = 16
ROW_BUDGET = 256


class Child:
    """Models stay loaded; engines don't."""

    def __init__(self, target: str, draft: str, dtype: str, draft_dtype: str) -> None:
        self.loaded = load_target(target, dtype=dtype)
        self.draft = None
        if draft:
            draft_loaded = load_target(draft, dtype=draft_dtype)
            self.draft = DraftModel(draft_loaded.target, draft_loaded.tokenizer)

    def ready(self) -> dict[str, object]:
        """What was loaded."""
        artifact = self.loaded.artifact
        return {"quantisation": artifact.quantisation, "hash": artifact.hash, "threads": torch.get_num_threads()}

    def generate(
        self,
        prompt: list[int],
        num_tokens: int,
        method: str,
        options: dict[str, Any],
        ends_naturally: bool = False,
    ) -> dict[str, object]:
        """One prompt. The time to set up an empty engine is told apart: other engines start before the clock does."""
        before = time.perf_counter()
        params = SamplingParams(max_tokens=num_tokens, ignore_eos=not ends_naturally)
        engine = self._engine(len(prompt) + num_tokens, method, dict(options))
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        (request,) = engine.submit(prompt, params)
        first = 0.0
        while not request.is_finished:
            engine.step()
            first = first or (time.perf_counter() - start if request.output else 0.0)
        seconds = time.perf_counter() - start
        gc.enable()
        counts = engine.completion(request).counts
        has_end = ends_naturally and request.finish_reason is FinishReason.STOP
        return {
            "token_ids": request.output[:-1] if has_end else request.output,
            "setup_seconds": start - before,
            "decode_seconds": seconds - first,
            "num_drafted": counts.drafted,
            "num_accepted": counts.accepted,
            "num_steps": counts.rounds,
        }

    def next_token_logprobs(self, prompt: list[int], num_most: int) -> dict[str, object]:
        """The most probable next tokens with their natural logarithms."""
        engine = self._engine(len(prompt) + 1, "off", {})
        (done,) = engine.generate([prompt], SamplingParams(max_tokens=1, ignore_eos=True, logprobs=num_most))
        (found,) = done.logprobs
        return {"logprobs": [[token, value] for token, value in found.top]}

    def _engine(self, num_tokens: int, method: str, options: dict[str, Any]) -> Engine:
        method = "off" if method == "plain" else method
        n = options.pop("n", 0)
        is_tree = bool(options.pop("tree", 0))
        drafting = Drafting(method, n, is_tree=is_tree, knobs=options)
        room = num_tokens + drafting.max_rows + 3 * BLOCK
        return Engine(
            self.loaded,
            drafting,
            draft_model=self.draft if method == "draft_model" else None,
            cache_tokens=room,
            block_size=BLOCK,
            row_budget=max(ROW_BUDGET, 1 + drafting.max_rows),
            reuses_prefixes=False,
        )


def main() -> None:
    """Arguments come from ``benchmarks.peers.forerun``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", default="")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--draft-dtype", default="auto")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    child = Child(arguments.target, arguments.draft, arguments.dtype, arguments.draft_dtype)
    serve(child.ready, {"generate": child.generate, "next_token_logprobs": child.next_token_logprobs})


if __name__ == "__main__":
    main()
