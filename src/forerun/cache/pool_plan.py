"""How many tokens the pools hold, in which number type, and what would fit where something doesn't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from forerun.cache.byte_size import bytes_text
from forerun.errors import ForerunError
from forerun.models.base import Target
from forerun.models.device import free_memory

DEFAULT_CACHE_TOKENS = 8192

# What may be offered in place of a pool that takes too much, coarser last.
_SMALLER = (torch.bfloat16, torch.int8)


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A pool for a target and one as long for each model that drafts beside it.

    ``kv_dtype`` None is each model's own number type. ``bytes_per_token`` is over all pools, ``in_other_dtypes`` the
    same for the number types that take less, by name.
    """

    num_blocks: int
    block_size: int
    kv_dtype: torch.dtype | None
    dtype_name: str
    bytes_per_token: int
    in_other_dtypes: tuple[tuple[str, int], ...]
    is_sized_in_bytes: bool

    @classmethod
    def of(
        cls,
        targets: Sequence[Target],
        *,
        block_size: int,
        kv_dtype: torch.dtype | None = None,
        cache_tokens: int | None = None,
        cache_bytes: int | None = None,
    ) -> PoolPlan:
        """Whole blocks: for ``cache_tokens`` no fewer, within ``cache_bytes`` no more; 8,192 tokens with neither.

        Raises ForerunError for both at once, for a size without a block, and for more than the memory that is free.
        """
        if block_size < 1:
            raise ForerunError("blocks of a token or more", f"block_size={block_size}", "leave it at 16")
        if cache_tokens is not None and cache_bytes is not None:
            raise ForerunError("cache_tokens or cache_bytes", "both", "drop one of the two")
        own = targets[0].new_store(0, kv_dtype).dtype
        in_use = _bytes_per_token(targets, kv_dtype)
        others = ((_name(dtype), _bytes_per_token(targets, dtype)) for dtype in _SMALLER)
        if cache_bytes is None:
            num_blocks = -(-(DEFAULT_CACHE_TOKENS if cache_tokens is None else cache_tokens) // block_size)
        elif in_use:
            num_blocks = cache_bytes // (in_use * block_size)
        else:
            raise ForerunError("keys and values to size by cache_bytes", "a target without", "use cache_tokens")
        if num_blocks < 1:
            raise ForerunError(
                f"room for one block of {block_size} tokens ({bytes_text(in_use * block_size)})",
                f"cache_tokens={cache_tokens}" if cache_bytes is None else f"cache_bytes={cache_bytes}",
                "raise it",
            )
        plan = cls(
            num_blocks,
            block_size,
            kv_dtype,
            _name(own),
            in_use,
            tuple((name, size) for name, size in others if size < in_use),
            cache_bytes is not None,
        )
        plan.require_memory(free_memory(torch.device(targets[0].traits.device)))
        return plan

    @property
    def num_tokens(self) -> int:
        """Positions that each pool holds."""
        return self.num_blocks * self.block_size

    @property
    def num_bytes(self) -> int:
        """Memory of all pools when full."""
        return self.num_tokens * self.bytes_per_token

    def require_memory(self, num_free: int) -> None:
        """Raises ForerunError, with the size that fits, for pools larger than ``num_free`` bytes."""
        if self.num_bytes <= num_free:
            return
        fitting = [
            f"{self._fitting(num_free, size)} tokens in {name}"
            for name, size in ((self.dtype_name, self.bytes_per_token), *self.in_other_dtypes)
        ]
        raise ForerunError(
            f"a cache within the {bytes_text(num_free)} of memory that are free",
            f"{self.num_tokens} tokens in {self.dtype_name}, which take {bytes_text(self.num_bytes)}",
            f"ask for at most {' or '.join(fitting)}",
        )

    def refusal(self, num_prompt: int, max_tokens: int, *, num_needed: int, num_fitting: int) -> ForerunError:
        """The error for a request that the whole pool can't hold.

        It would come to hold ``num_needed`` positions; prompt and output of ``num_fitting`` tokens together would fit.
        """
        needed = -(-num_needed // self.block_size) * self.block_size
        name, size = self._coarsest()
        in_less = f"; in {name} {bytes_text(needed * size)}" if self.in_other_dtypes else ""
        if num_fitting > num_prompt:
            shorter = f"lower max_tokens to {num_fitting - num_prompt}"
        else:
            shorter = f"shorten prompt and output to {max(num_fitting, 0)} tokens together"
        if not self.is_sized_in_bytes:
            larger = f"raise cache_tokens to {needed}"
        elif needed * size <= self.num_bytes:
            larger = f"choose kv_dtype {name}, which holds {self._fitting(self.num_bytes, size)} tokens there"
        else:
            larger = f"raise cache_bytes to {needed * self.bytes_per_token}"
        return ForerunError(
            f"prompt and output within the cache of {self.num_tokens} tokens "
            f"({self.dtype_name}, {bytes_text(self.num_bytes)})",
            f"{num_prompt} + {max_tokens} tokens, which take {needed} "
            f"({bytes_text(needed * self.bytes_per_token)}{in_less})",
            f"{shorter}, or {larger}",
        )

    def _coarsest(self) -> tuple[str, int]:
        return self.in_other_dtypes[-1] if self.in_other_dtypes else (self.dtype_name, self.bytes_per_token)

    def _fitting(self, num_bytes: int, bytes_per_token: int) -> int:
        return num_bytes // (bytes_per_token * self.block_size) * self.block_size


def _bytes_per_token(targets: Sequence[Target], dtype: torch.dtype | None) -> int:
    return sum(target.new_store(0, dtype).bytes_per_slot for target in targets)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
