"""ShareGPT: recorded conversations as ``conversations`` of ``from`` and ``value``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.base import LooseRow, Reader, has_fields
from forerun.workloads.readers.rows import Row

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "system": "system",
}


class Utterance(LooseRow):
    """One turn."""

    speaker: Literal["human", "user", "gpt", "chatgpt", "assistant", "bing", "bard", "system"] = Field(alias="from")
    value: str


class ShareGptRow(LooseRow):
    """One conversation."""

    id: str | int | None = None
    conversations: list[Utterance]


class ShareGptReader(Reader):
    """The conversation up to its last human turn is the prompt, the answer after it the reference.

    Some recordings begin in the middle, with an answer; that turn is kept, since leaving it out would change what the
    following ones answer. A conversation without a human turn has nothing to ask and is an error.
    """

    name: ClassVar[str] = "sharegpt"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By its conversations."""
        return has_fields(rows, "conversations")

    def parse(self, row: Row) -> Prompt:
        """One conversation."""
        record = row.parsed(ShareGptRow)
        turns = [Message(_ROLES[turn.speaker], turn.value) for turn in record.conversations]
        asked = [index for index, turn in enumerate(turns) if turn.role == "user" and turn.content.strip()]
        if not asked:
            raise row.error("a conversation without a human turn", "leave that conversation out of the file")
        last = asked[-1]
        answer = turns[last + 1].content if last + 1 < len(turns) and turns[last + 1].role == "assistant" else None
        record_id = str(record.id) if record.id is not None else f"sharegpt/{row.line}"
        return Prompt(
            id=record_id,
            workload="sharegpt",
            messages=tuple(turns[: last + 1]),
            reference=answer,
            session=record_id,
            source=self.name,
        )
