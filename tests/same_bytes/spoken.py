"""What one prompt was continued with, down to the bits, and where two of them part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forerun.engine.request import Completion
from forerun.sampling.token_logprobs import TokenLogprobs


@dataclass(frozen=True)
class SpokenToken:
    """A token, its log-probability and the likeliest alternatives, floats as hexadecimal text: equal text, equal bits.

    ``logits`` is a digest of the whole row, empty where rows aren't written down.
    """

    token: int
    logprob: str
    top: tuple[tuple[int, str], ...]
    logits: str = ""

    @classmethod
    def of(cls, reported: TokenLogprobs, logits: str = "") -> SpokenToken:
        """``logits``: the digest of the row that it was drawn from, where it is known."""
        top = tuple((token, value.hex()) for token, value in reported.top)
        return cls(reported.token, reported.logprob.hex(), top, logits)

    def __str__(self) -> str:
        text = f"token {self.token} at {float.fromhex(self.logprob)!r} ({self.logprob})"
        return f"{text}, logits {self.logits}" if self.logits else text


@dataclass(frozen=True)
class Spoken:
    """One continuation."""

    tokens: tuple[SpokenToken, ...]

    @classmethod
    def of(cls, completion: Completion, logits: Sequence[str] = ()) -> Spoken:
        """``logits``: per token the digest of the row that it was drawn from, or nothing at all."""
        assert completion.token_ids == tuple(entry.token for entry in completion.logprobs)
        known = logits or [""] * len(completion.logprobs)
        return cls(tuple(SpokenToken.of(*pair) for pair in zip(completion.logprobs, known, strict=True)))

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The ids alone."""
        return tuple(token.token for token in self.tokens)


@dataclass(frozen=True)
class Difference:
    """Where a prompt's continuation first parts from the reference, ``position`` counted from its own beginning.

    ``num_ids`` and ``num_rows`` count the positions whose id, or whose id or any number, is another one.
    """

    prompt: int
    num_prompt_tokens: int
    position: int
    expected: str
    found: str
    num_ids: int
    num_rows: int

    def __str__(self) -> str:
        return (
            f"prompt {self.prompt} ({self.num_prompt_tokens} tokens), output position {self.position}:\n"
            f"  reference {self.expected}\n  found     {self.found}"
        )


def difference(prompt: int, num_prompt_tokens: int, expected: Spoken, found: Spoken) -> Difference | None:
    """None where every id and every bit is the same."""
    length = max(len(expected.tokens), len(found.tokens))
    pairs = [(_at(expected, position), _at(found, position)) for position in range(length)]
    parted = [position for position, (one, other) in enumerate(pairs) if one != other]
    if not parted:
        return None
    one, other = pairs[parted[0]]
    num_ids = sum((a and a.token) != (b and b.token) for a, b in pairs)
    return Difference(
        prompt, num_prompt_tokens, parted[0], str(one or "nothing"), str(other or "nothing"), num_ids, len(parted)
    )


def _at(spoken: Spoken, position: int) -> SpokenToken | None:
    return spoken.tokens[position] if position < len(spoken.tokens) else None
