"""Everything that drafts: the methods that ship, and scripts whose drafts are partly right for certain."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from forerun.drafters.method import DraftModel
from forerun.engine.drafting import Drafting
from forerun.models.base import Target
from support import scripted_drafters as scripted
from support.first_layers import first_layers
from support.scripted_drafters import Texts


class Drafts(enum.Enum):
    """Method and shape. ``ITSELF``: the target drafts for itself; ``FIRST_LAYERS``: a fifth of its layers do."""

    OFF = "off"
    NGRAM = "ngram"
    SUFFIX = "suffix"
    SUFFIX_TREE = "suffix tree"
    ITSELF = "draft model, itself"
    FIRST_LAYERS_TREE = "draft model, first layers, tree"
    HALF_RIGHT = "half right"
    BUSHY_TREE = "bushy tree"


@dataclass(frozen=True)
class EngineParts:
    """What an engine takes to draft in one of these ways."""

    drafting: Drafting
    draft_model: DraftModel | None = None
    drafter: Any = None


def parts_of(drafts: Drafts, n: int, target: Target, texts: Texts) -> EngineParts:
    """``texts``: what plain decoding says, for the scripts that know it."""
    vocab_size = target.traits.vocab_size
    match drafts:
        case Drafts.OFF:
            return EngineParts(Drafting())
        case Drafts.NGRAM:
            return EngineParts(Drafting("ngram", n, knobs={"min_n": 1}))
        case Drafts.SUFFIX | Drafts.SUFFIX_TREE:
            is_tree = drafts is Drafts.SUFFIX_TREE
            return EngineParts(Drafting("suffix", n, is_tree=is_tree, knobs={"feeds_corpus": True}))
        case Drafts.ITSELF:
            return EngineParts(Drafting("draft_model", n), DraftModel(target))
        case Drafts.FIRST_LAYERS_TREE:
            shallow = first_layers(target, max(2, target.traits.num_layers // 5))
            return EngineParts(Drafting("draft_model", n, is_tree=True), DraftModel(shallow))
        case Drafts.HALF_RIGHT:
            # At N = 15 a coin for each token would accept two at most, nearly always.
            return EngineParts(Drafting("scripted", n), drafter=scripted.half_right(texts, vocab_size, share=0.7))
        case Drafts.BUSHY_TREE:
            return EngineParts(Drafting("scripted", n, is_tree=True), drafter=scripted.bushy(texts, vocab_size))
