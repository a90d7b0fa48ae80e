"""Whether a draft model speaks the target's tokens, and its rows over the target's vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from forerun.drafters.method import DraftModel
from forerun.errors import ForerunError
from forerun.models.base import Target
from forerun.models.tokenizer import Tokenizer, vocabulary_difference


def check_vocabulary(target: Target, tokenizer: Tokenizer | None, draft_model: DraftModel) -> None:
    """Refuse a draft model of another tokenizer, token by token; heads padded to other sizes are fine.

    Without both tokenizers only equal sizes can be trusted.
    """
    drafter = draft_model.target.traits
    if tokenizer is not None and draft_model.tokenizer is not None:
        difference = vocabulary_difference(tokenizer, draft_model.tokenizer)
        if difference is not None:
            raise ForerunError(
                f"a draft model with the tokenizer of {target.traits.name}",
                f"{drafter.name}, where {difference}",
                "choose a draft model of the same family",
            )
    elif target.traits.vocab_size != drafter.vocab_size:
        raise ForerunError(
            f"a draft model with the {target.traits.vocab_size} tokens of {target.traits.name}",
            f"{drafter.name} with {drafter.vocab_size} and no tokenizer to compare",
            "load both models with their tokenizers",
        )


def over_vocabulary(logits: Tensor, vocab_size: int) -> Tensor:
    """Rows [n, any] cut or filled with -inf to [n, vocab_size]: the difference is padding."""
    if logits.shape[1] >= vocab_size:
        return logits[:, :vocab_size]
    padding = torch.full((logits.shape[0], vocab_size - logits.shape[1]), -torch.inf)
    return torch.cat([logits, padding], dim=1)
