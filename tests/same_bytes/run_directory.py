"""What is done so far, in files: a run that was stopped goes on, and a run of other code begins anew."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import forerun
from same_bytes.machine import machine
from same_bytes.outcome import Outcome
from same_bytes.prompts import Prompt
from same_bytes.setting import Setting
from same_bytes.spoken import Difference, Spoken, SpokenToken
from same_bytes.subject import Subject


class RunDirectory:
    """One directory per model, prompts, code and machine under ``parent``: whatever could change a bit."""

    def __init__(self, parent: Path, subject: Subject, prompts: Sequence[Prompt], num_tokens: int) -> None:
        basis = [subject.identity, prompts, num_tokens, _code(), machine()]
        key = hashlib.sha256(json.dumps(basis).encode()).hexdigest()[:12]
        self.path = parent / f"{subject.name}-{key}"
        self.path.mkdir(parents=True, exist_ok=True)

    def reference(self, setting: Setting) -> tuple[Spoken, ...] | None:
        """What the reference said, if it was asked already."""
        path = self._reference_path(setting)
        if not path.exists():
            return None
        prompts = json.loads(gzip.decompress(path.read_bytes()))
        return tuple(Spoken(tuple(_token(entry) for entry in tokens)) for tokens in prompts)

    def keep_reference(self, setting: Setting, spoken: Sequence[Spoken]) -> None:
        """Writes it down whole or not at all."""
        prompts = [[(token.token, token.logprob, token.top, token.logits) for token in one.tokens] for one in spoken]
        _write(self._reference_path(setting), gzip.compress(json.dumps(prompts).encode()))

    def outcome(self, setting: Setting) -> Outcome | None:
        """How the setting compared, if it was run already."""
        path = self._outcome_path(setting)
        if not path.exists():
            return None
        stored = json.loads(path.read_text())
        differences = tuple(Difference(**entry) for entry in stored.pop("differences"))
        return Outcome(differences=differences, **stored)

    def keep_outcome(self, setting: Setting, outcome: Outcome) -> None:
        """Writes it down whole or not at all."""
        _write(self._outcome_path(setting), json.dumps(asdict(outcome)).encode())

    def _reference_path(self, setting: Setting) -> Path:
        return self.path / f"reference-{setting.numbers.label.replace(' ', '-')}-{setting.temperature:g}.json.gz"

    def _outcome_path(self, setting: Setting) -> Path:
        return self.path / f"setting-{hashlib.sha256(setting.label.encode()).hexdigest()[:12]}.json"


def _write(path: Path, content: bytes) -> None:
    partial = path.with_suffix(".partial")
    partial.write_bytes(content)
    partial.replace(path)


def _token(entry: list[Any]) -> SpokenToken:
    token, logprob, top, logits = entry
    return SpokenToken(token, logprob, tuple((id, value) for id, value in top), logits)


def _code() -> str:
    """A digest of the package, compiled parts included, and of what drives it here."""
    digest = hashlib.sha256()
    tests = Path(__file__).parent
    for folder in (Path(forerun.__file__).parent, tests, tests.parent / "support"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(folder)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()
