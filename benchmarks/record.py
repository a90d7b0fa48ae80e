"""Every answer on disk as soon as it is given, so that a run that ended early can go on where it was."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.peers.base import NotRun, Setting
from benchmarks.prompts import TokenPrompt
from benchmarks.trial import Trial
from forerun.errors import ForerunError

# What could not be run is remembered too: trying it again would take as long as it took to fail.
_Entry = Trial | tuple[Setting, NotRun]
_ADAPTER: TypeAdapter[_Entry] = TypeAdapter(_Entry)


class Record:
    """One entry a line, as JSON. Begins anew unless ``is_resumed``.

    Raises ForerunError for a file to be resumed that isn't such a record.
    """

    def __init__(self, path: Path, *, is_resumed: bool = False) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = _read(path) if is_resumed and path.exists() else []
        self.earlier = [entry for entry in entries if isinstance(entry, Trial)]
        self.not_run = dict(entry for entry in entries if not isinstance(entry, Trial))
        if not entries:
            path.write_text("")

    def add(self, trial: Trial) -> None:
        """Appends it, with the setting's label for people."""
        self._write(trial, {"label": trial.setting.label})

    def add_not_run(self, found: Mapping[Setting, NotRun]) -> None:
        """Appends those that it doesn't know yet."""
        for setting in [setting for setting in found if setting not in self.not_run]:
            self.not_run[setting] = found[setting]
            self._write((setting, found[setting]))

    def round(self, stage: str, settings: Collection[Setting], prompt: TokenPrompt) -> list[Trial]:
        """What an earlier run measured of exactly these settings side by side on this prompt; nothing if not whole."""
        rounds: dict[int, list[Trial]] = {}
        for trial in self.earlier:
            is_same = (trial.stage, trial.prompt_id, trial.workload) == (stage, prompt.id, prompt.workload)
            if is_same and len(trial.answer.token_ids) == prompt.num_tokens:
                rounds.setdefault(trial.round, []).append(trial)
        wanted = set(settings)
        for trials in rounds.values():
            found = {trial.setting for trial in trials}
            if found <= wanted <= found | self.not_run.keys():
                return trials
        return []

    def _write(self, entry: _Entry, more: Mapping[str, str] | None = None) -> None:
        row = _ADAPTER.dump_python(entry, mode="json")
        with self._path.open("a") as file:
            file.write(json.dumps(row | more if more else row) + "\n")


def _read(path: Path) -> list[_Entry]:
    try:
        return [_ADAPTER.validate_json(line) for line in path.read_text().splitlines() if line]
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise ForerunError(
            f"trials in {path.name} as this version writes them", reason, "run without --resume"
        ) from None
