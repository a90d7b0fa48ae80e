"""The outcome of a run: for a program, and for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from same_bytes.outcome import Outcome
from same_bytes.setting import Setting


@dataclass(frozen=True)
class Report:
    """Every setting with its outcome, and the conditions they share."""

    subject: str
    machine: str
    num_prompts: int
    num_prompt_tokens: int
    num_reference_tokens: int
    outcomes: Mapping[Setting, Outcome]

    @property
    def num_tokens(self) -> int:
        """Tokens compared, over all settings."""
        return sum(outcome.num_tokens for outcome in self.outcomes.values())

    @property
    def num_different_ids(self) -> int:
        """Over all settings."""
        return sum(outcome.num_different_ids for outcome in self.outcomes.values())

    @property
    def num_different_rows(self) -> int:
        """Over all settings."""
        return sum(outcome.num_different_rows for outcome in self.outcomes.values())

    @property
    def doubts(self) -> list[str]:
        """Why agreement would prove little: the settings together must accept, reject and hit something."""
        outcomes = self.outcomes.values()
        accepted = sum(outcome.num_accepted for outcome in outcomes)
        rejected = sum(outcome.num_drafted for outcome in outcomes) - accepted
        hits = sum(outcome.num_hit_tokens for outcome in outcomes)
        found = {"no draft was accepted": accepted, "no draft was rejected": rejected, "no prefix was hit": hits}
        return [doubt for doubt, count in found.items() if not count]

    @property
    def is_passed(self) -> bool:
        """No difference anywhere, and settings that could have made one."""
        return not self.num_different_rows and not self.doubts

    @property
    def headline(self) -> str:
        """One sentence."""
        text = (
            f"{self.num_different_ids} different ids and {self.num_different_rows} positions with any difference in "
            f"{self.num_tokens:,} tokens: {self.num_prompts} prompts, {len(self.outcomes)} settings, {self.subject}"
        )
        return "; ".join([text, *self.doubts])

    @property
    def first_difference(self) -> str:
        """Setting, prompt, position and both sides of the first one; empty where there is none."""
        for setting, outcome in self.outcomes.items():
            if outcome.differences:
                return f"{setting.label}\n{outcome.differences[0]}"
        return ""

    def as_dict(self) -> dict[str, Any]:
        """For the JSON file; without the differences, which lie beside it by setting."""
        return {
            "is_passed": self.is_passed,
            "subject": self.subject,
            "machine": self.machine,
            "num_prompts": self.num_prompts,
            "num_prompt_tokens": self.num_prompt_tokens,
            "num_tokens": self.num_tokens,
            "num_different_ids": self.num_different_ids,
            "num_different_rows": self.num_different_rows,
            "num_reference_tokens": self.num_reference_tokens,
            "first_difference": self.first_difference,
            "settings": [_as_dict(setting, outcome) for setting, outcome in self.outcomes.items()],
        }

    def as_markdown(self) -> str:
        """Headline, conditions, first difference and a table of settings."""
        lines = [
            "# Same bytes",
            "",
            f"**{self.headline}.**",
            "",
            f"{self.machine}. {self.num_prompt_tokens:,} prompt tokens. Compared with plain decoding of the same "
            "number types and temperature: nothing drafted, one request at a time, one thread, cold, prompts in one "
            f"slice ({self.num_reference_tokens:,} tokens).",
            "",
        ]
        if self.first_difference:
            lines += ["First difference:", "", "```", self.first_difference, "```", ""]
        lines += [
            "| setting | tokens | other ids | other rows | accepted / drafted | hit tokens | s |",
            "|---|--:|--:|--:|--:|--:|--:|",
            *(_table_row(setting, outcome) for setting, outcome in self.outcomes.items()),
        ]
        return "\n".join(lines) + "\n"


def _table_row(setting: Setting, outcome: Outcome) -> str:
    drafted = f"{outcome.num_accepted} / {outcome.num_drafted}" if outcome.num_drafted else "-"
    differ = f"{outcome.num_different_ids} | {outcome.num_different_rows}"
    return (
        f"| {setting.label} | {outcome.num_tokens} | {differ} | {drafted} | {outcome.num_hit_tokens} "
        f"| {outcome.seconds:.0f} |"
    )


def _as_dict(setting: Setting, outcome: Outcome) -> dict[str, Any]:
    return {
        "setting": setting.label,
        "num_tokens": outcome.num_tokens,
        "num_different_ids": outcome.num_different_ids,
        "num_different_rows": outcome.num_different_rows,
        "num_drafted": outcome.num_drafted,
        "num_accepted": outcome.num_accepted,
        "num_hit_tokens": outcome.num_hit_tokens,
        "seconds": outcome.seconds,
        "num_different_prompts": len(outcome.differences),
    }
