"""What a caller may ask of the sampler, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from forerun.errors import ForerunError

MAX_CHOICES = 1024
# Penalties and biases of this size outweigh any logit, and their sums over any output stay finite in float64.
MAX_SHIFT = 1e30


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling values of one request; the defaults are plain greedy decoding.

    ``top_k`` 0, ``top_p`` 1, ``min_p`` 0 and penalties of 1, 0 and 0 are off. A ``logit_bias`` of -inf bans a token.
    ``min_tokens`` counts generated tokens before any end token may be drawn; ``seed`` None asks for a random one.
    ``logprobs`` is the number of alternatives to report (0: the token alone, None: nothing).

    Raises:
        ForerunError: a value is out of range, or two values contradict each other.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    max_tokens: int = 128
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int | None = None
    n: int = 1
    logprobs: int | None = None

    def __post_init__(self) -> None:
        self._check_truncation()
        self._check_penalties()
        self._check_lengths()

    def _check_truncation(self) -> None:
        # Written as "not in range" rather than "out of range", so that NaN fails too.
        if not 0.0 <= self.temperature < math.inf:
            raise _out_of_range("temperature", "a finite number of at least 0", self.temperature, "use 0 for greedy")
        if self.top_k < 0:
            raise _out_of_range("top_k", "0 or more", self.top_k, "use 0 to switch it off")
        if not 0.0 < self.top_p <= 1.0:
            raise _out_of_range("top_p", "above 0 and at most 1", self.top_p, "use 1 to switch it off")
        if not 0.0 <= self.min_p <= 1.0:
            raise _out_of_range("min_p", "0 to 1", self.min_p, "use 0 to switch it off")

    def _check_penalties(self) -> None:
        if not 1 / MAX_SHIFT <= self.repetition_penalty <= MAX_SHIFT:
            raise _out_of_range(
                "repetition_penalty", "1e-30 to 1e30", self.repetition_penalty, "use 1 to switch it off"
            )
        for name, value in (
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ):
            if not abs(value) <= MAX_SHIFT:
                raise _out_of_range(name, "-1e30 to 1e30", value, "use 0 to switch it off")
        for token, bias in self.logit_bias:
            if token < 0:
                raise _out_of_range("logit_bias", "token ids of 0 or more", token, "name ids of the vocabulary")
            if not (abs(bias) <= MAX_SHIFT or bias == -math.inf):
                raise _out_of_range("logit_bias", "-1e30 to 1e30 or -inf", bias, f"correct the bias of token {token}")
        biased = [token for token, _ in self.logit_bias]
        if len(set(biased)) < len(biased):
            raise _out_of_range("logit_bias", "one bias per token", biased, "name each token once")

    def _check_lengths(self) -> None:
        for name, least in (("min_tokens", 0), ("max_tokens", 1), ("n", 1)):
            value = getattr(self, name)
            if value < least:
                raise _out_of_range(name, f"{least} or more", value, f"raise {name}")
        if self.n > MAX_CHOICES:
            raise _out_of_range("n", f"at most {MAX_CHOICES}", self.n, "ask for fewer choices")
        if self.min_tokens > self.max_tokens:
            raise _out_of_range(
                "min_tokens", f"at most max_tokens ({self.max_tokens})", self.min_tokens, "lower it or raise max_tokens"
            )
        if self.logprobs is not None and self.logprobs < 0:
            raise _out_of_range("logprobs", "0 or more", self.logprobs, "leave it out for none")
        if self.seed is not None and not 0 <= self.seed < 2**64:
            raise _out_of_range("seed", "0 to 2**64 - 1", self.seed, "choose an unsigned 64-bit seed")
        if "" in self.stop:
            raise _out_of_range("stop", "texts of at least one character", "an empty text", "drop it")
        if any(token < 0 for token in self.stop_token_ids):
            raise _out_of_range("stop_token_ids", "ids of 0 or more", self.stop_token_ids, "drop the negative ids")


def _out_of_range(name: str, expected: str, found: object, remedy: str) -> ForerunError:
    return ForerunError(f"{name} to be {expected}", repr(found) if not isinstance(found, str) else found, remedy)
