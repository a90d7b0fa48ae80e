"""Every method, one line each. Whatever lists, builds or tests methods reads this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from forerun.drafters.base import Drafter, MethodInfo
from forerun.drafters.draft_model.config import DraftModelConfig
from forerun.drafters.draft_model.drafter import DraftModelDrafter
from forerun.drafters.knobs import read_knobs
from forerun.drafters.method import BuildContext, Method
from forerun.drafters.ngram.config import NgramConfig
from forerun.drafters.ngram.drafter import NgramDrafter
from forerun.drafters.off.config import OffConfig
from forerun.drafters.off.drafter import OffDrafter
from forerun.drafters.suffix.config import SuffixConfig
from forerun.drafters.suffix.drafter import SuffixDrafter
from forerun.errors import ForerunError

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "off": Method(OffDrafter.info, OffConfig, OffDrafter.build),
        "ngram": Method(NgramDrafter.info, NgramConfig, NgramDrafter.build),
        "suffix": Method(SuffixDrafter.info, SuffixConfig, SuffixDrafter.build),
        "draft_model": Method(DraftModelDrafter.info, DraftModelConfig, DraftModelDrafter.build),
    }
)


def find_method(name: str) -> Method:
    """The method of that name. Raises ``ForerunError`` with the names that exist."""
    if name not in METHODS:
        raise ForerunError(f"a method ({', '.join(METHODS)})", repr(name), "choose one of them")
    return METHODS[name]


def build(name: str, knobs: Mapping[str, object] | None = None, context: BuildContext | None = None) -> Drafter[Any]:
    """A drafter of method ``name``. Raises ``ForerunError`` for unknown names or knobs and for missing artifacts."""
    method = find_method(name)
    return method.build(read_knobs(name, method.config, knobs or {}), context or BuildContext())


def check_num_speculative_tokens(info: MethodInfo, num_speculative_tokens: int) -> None:
    """Refuse an N that the method can't draft: below 1 or over its limit; ``off`` takes 0 and nothing else."""
    limit = info.max_num_speculative_tokens
    lowest = min(1, limit)
    if not lowest <= num_speculative_tokens <= limit:
        wanted = f"N from {lowest} to {limit}" if limit else "N = 0"
        raise ForerunError(
            f"{wanted} for method {info.name}",
            f"N = {num_speculative_tokens}",
            "choose an N in that range" + (", or method off for no drafts" if limit else ""),
        )
