"""References first, then every setting against its own; whatever is done already is read instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from same_bytes.arm import run_arm
from same_bytes.machine import machine
from same_bytes.outcome import Outcome
from same_bytes.prompts import Prompt
from same_bytes.report import Report
from same_bytes.run_directory import RunDirectory
from same_bytes.setting import Setting, reference
from same_bytes.spoken import Spoken
from same_bytes.subject import Subject

Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One subject, its prompts and the settings to hold against plain decoding. ``say`` gets a line for each."""

    subject: Subject
    prompts: Sequence[Prompt]
    num_tokens: int
    settings: Sequence[Setting]
    directory: RunDirectory
    say: Say

    def run(self) -> Report:
        """Settings of the same number types run together, so that a model is loaded once. Writes both reports."""
        outcomes: dict[Setting, Outcome] = {}
        for setting in sorted(self.settings, key=lambda setting: (setting.numbers.label, setting.temperature)):
            outcomes[setting] = self._outcome(setting)
            self.say(f"{len(outcomes):>3}/{len(self.settings)}  {_line(setting, outcomes[setting])}")
        report = self._report({setting: outcomes[setting] for setting in self.settings})
        (self.directory.path / "report.json").write_text(json.dumps(report.as_dict(), indent=1) + "\n")
        (self.directory.path / "report.md").write_text(report.as_markdown())
        return report

    def _outcome(self, setting: Setting) -> Outcome:
        known = self.directory.outcome(setting)
        if known is not None:
            return known
        expected = self._reference(setting)
        arm = run_arm(self.subject, setting, self.prompts, self.num_tokens, expected)
        outcome = Outcome.of(arm, self.prompts, expected)
        self.directory.keep_outcome(setting, outcome)
        return outcome

    def _reference(self, setting: Setting) -> tuple[Spoken, ...]:
        plain = reference(setting.numbers, setting.temperature)
        known = self.directory.reference(plain)
        if known is not None:
            return known
        arm = run_arm(self.subject, plain, self.prompts, self.num_tokens)
        self.say(f"reference {plain.label}: {self.num_tokens * len(self.prompts)} tokens, {arm.seconds:.0f} s")
        self.directory.keep_reference(plain, arm.spoken)
        return arm.spoken

    def _report(self, outcomes: dict[Setting, Outcome]) -> Report:
        num_references = len({(setting.numbers, setting.temperature) for setting in self.settings})
        return Report(
            subject=self.subject.identity,
            machine=machine(),
            num_prompts=len(self.prompts),
            num_prompt_tokens=sum(len(prompt) for prompt in self.prompts),
            num_reference_tokens=num_references * len(self.prompts) * self.num_tokens,
            outcomes=outcomes,
        )


def _line(setting: Setting, outcome: Outcome) -> str:
    state = f"{outcome.num_different_rows} DIFFER" if outcome.differences else "same"
    accepted = f"{outcome.num_accepted} of {outcome.num_drafted} accepted" if outcome.num_drafted else "no drafts"
    return f"{state}  {setting.label}: {outcome.num_tokens} tokens, {accepted}, {outcome.seconds:.0f} s"
