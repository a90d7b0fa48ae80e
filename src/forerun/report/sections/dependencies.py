"""Three dependency structures, and retrieval, which has none: what a draft waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forerun.drafters.base import MethodInfo
from forerun.report.markup import Html, paragraph, section, table, tag
from forerun.report.sections.dependency_picture import picture
from forerun.types import Dependency

_WORDS: Final = {
    Dependency.SEQUENTIAL: (
        "Sequential",
        "Each drafted token waits for the one before. Later tokens know what came before them, so more are accepted; "
        "drafting costs N steps.",
    ),
    Dependency.PARALLEL: (
        "Parallel",
        "The whole block comes from one pass. Drafting costs one step whatever N is; late positions don't know what "
        "was chosen before them.",
    ),
    Dependency.PARALLEL_CORRECTED: (
        "Parallel with correction",
        "One pass for the block, then a light step that lets each token see the choice before it.",
    ),
    Dependency.NONE: (
        "None: retrieval",
        "Tokens are copied from text seen before. Drafting costs next to nothing; where nothing matches there is no "
        "draft.",
    ),
}


def render(methods: Sequence[MethodInfo]) -> Html:
    """A picture and the methods of each structure."""
    cards = [_card(dependency, methods) for dependency in _WORDS]
    rows = [
        [
            method.name,
            method.dependency.value,
            method.borrows.value,
            method.weights.value,
            "yes" if method.has_trees else "no",
            method.summary,
            str(method.max_num_speculative_tokens),
        ]
        for method in _drafting(methods)
    ]
    return section(
        "dependencies",
        "What a draft waits for",
        paragraph(
            "All methods share one contract: draft, verify in one pass, keep the longest agreeing prefix. They differ "
            "in how much serial work remains inside a draft, and that shapes the curves below."
        ),
        tag("div", *cards, class_="cards"),
        table(
            "Methods of this build",
            ["Method", "Dependency", "Borrows from the target", "Weights", "Trees", "In short", "Largest N"],
            rows,
            num_texts=6,
        ),
    )


def _card(dependency: Dependency, methods: Sequence[MethodInfo]) -> Html:
    title, words = _WORDS[dependency]
    names = [method.name for method in _drafting(methods) if method.dependency is dependency]
    return tag(
        "div",
        picture(dependency, title),
        tag("h3", title),
        paragraph(words),
        paragraph(", ".join(names) if names else "no method of this build", class_="note"),
        class_="card",
    )


def _drafting(methods: Sequence[MethodInfo]) -> list[MethodInfo]:
    return [method for method in methods if method.max_num_speculative_tokens > 0]
