"""transformers behind lines: plain greedy decoding, prompt lookup and assisted generation over one loaded model."""

import argparse
import time
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig, StoppingCriteriaList

from benchmarks.children.lines import serve

ARGUMENTS: dict[str, dict[str, str]] = {
    "prompt_lookup": {"n": "prompt_lookup_num_tokens", "max_n": "max_matching_ngram_size"},
    "assisted": {},
    "plain": {},
}


class FirstTokenClock:
    """Called after every step; notes when the first one ended and never stops anything."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        self.at = self.at or time.perf_counter()
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


class Child:
    """``rows`` collects how many rows each pass of the target had: the counts that generate() doesn't give."""

    def __init__(self, target: str, draft: str) -> None:
        self.model = self._load(target)
        self.draft: Any = self._load(draft) if draft else None
        self.rows: list[int] = []
        self.model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _load(self, directory: str) -> Any:
        model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16, local_files_only=True).eval()
        # Nothing of the checkpoint's own generation settings: greedy, and the length is fixed by the request.
        model.generation_config = GenerationConfig(eos_token_id=None, pad_token_id=0)
        return model

    def _count(self, module: Any, positional: Any, named: dict[str, Any]) -> None:
        self.rows.append(named["input_ids"].shape[1])

    def ready(self) -> dict[str, object]:
        return {
            "threads": torch.get_num_threads(),
            "dtype": str(self.model.dtype),
            "attention": self.model.config._attn_implementation,
            "version": f"transformers {transformers.__version__}, torch {torch.__version__}",
        }

    @torch.inference_mode()
    def generate(self, prompt: list[int], num_tokens: int, method: str, options: dict[str, int]) -> dict[str, object]:
        arguments: dict[str, Any] = {
            ARGUMENTS[method][name]: value for name, value in options.items() if name in ARGUMENTS[method]
        }
        if method == "assisted":
            arguments["assistant_model"] = self.draft
            # A number fixes the length; without one, transformers adapts it as it ships.
            if "n" in options:
                self.draft.generation_config.num_assistant_tokens = options["n"]
                self.draft.generation_config.num_assistant_tokens_schedule = "constant"
                self.draft.generation_config.assistant_confidence_threshold = 0.0
            else:
                self.draft.generation_config = GenerationConfig(eos_token_id=None, pad_token_id=0)
        self.rows.clear()
        clock = FirstTokenClock()
        ids = torch.tensor([prompt])
        out = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=num_tokens,
            do_sample=False,
            stopping_criteria=StoppingCriteriaList([clock]),
            **arguments,
        )
        end = time.perf_counter()
        # The first pass holds the prompt, and in assisted forms the first draft behind it.
        first_rows = self.rows[0] - len(prompt) if self.rows[0] > len(prompt) else 0
        later = self.rows[1:]
        token_ids = out[0, len(prompt) :].tolist()
        num_steps = len(later)
        num_drafted = first_rows + sum(rows - 1 for rows in later)
        return {
            "token_ids": token_ids,
            "decode_seconds": end - clock.at,
            "num_drafted": num_drafted,
            # Every pass gives one token of its own; the others were drafted.
            "num_accepted": len(token_ids) - num_steps - 1 if num_drafted else 0,
            "num_steps": num_steps,
        }

    @torch.inference_mode()
    def next_token_logprobs(self, prompt: list[int], num_most: int) -> dict[str, object]:
        row = self.model(input_ids=torch.tensor([prompt]), logits_to_keep=1).logits[0, -1].float()
        found = torch.log_softmax(row, -1).topk(min(num_most, len(row)))
        return {"logprobs": list(zip(found.indices.tolist(), found.values.tolist()))}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", default="")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    child = Child(arguments.target, arguments.draft)
    serve(child.ready, {"generate": child.generate, "next_token_logprobs": child.next_token_logprobs})


if __name__ == "__main__":
    main()
