"""Reads states out of a model's own modules: block outputs, the final norm's input and output, the embeddings."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from forerun.errors import ForerunError
from forerun.models.adapter.tile_pass import TilePass, tile_in_flight
from forerun.models.tiled_linear import ROW_TILE, pad_rows
from forerun.types import Tap, TapKind

RunBody = Callable[[Tensor, Tensor], Tensor]

_ONLY_EMBEDDING: ContextVar[bool] = ContextVar("forerun_adapter_only_embedding", default=False)


class _ReachedFirstBlockError(Exception):
    """Ends a forward as soon as the first block's input is known."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


class StateTaps:
    """Forward hooks on the blocks and on the norms beside them, silent unless a tile asks for their states."""

    def __init__(self, model: nn.Module, blocks: nn.ModuleList) -> None:
        self.blocks = blocks
        self._model_name = type(model).__name__
        for index, block in enumerate(blocks):
            block.register_forward_hook(self._block_hook(Tap.of_block(index)))
        blocks[0].register_forward_pre_hook(self._first_block_hook, with_kwargs=True)
        owner = next(module for module in model.modules() if any(child is blocks for child in module.children()))
        for child in owner.children():
            if "norm" in type(child).__name__.lower():
                child.register_forward_hook(self._norm_hook)

    def finish(self, tile: TilePass, last_hidden: Tensor) -> dict[Tap, Tensor]:
        """The wanted states of a tile's real rows, [rows, hidden] each; states of another shape are refused."""
        before = next((start for start, end in tile.norms if end.data_ptr() == last_hidden.data_ptr()), None)
        found = tile.states | {Tap(TapKind.AFTER_FINAL_NORM): last_hidden}
        if before is not None:
            found[Tap(TapKind.BEFORE_FINAL_NORM)] = before
        for tap in tile.taps:
            if tap not in found or found[tap].shape != last_hidden.shape:
                raise ForerunError(
                    f"a target with one state a row at {_described(tap)}",
                    f"{self._model_name}, which has none",
                    "choose a method that borrows other states",
                )
        return {tap: found[tap][0, : tile.num_rows] for tap in tile.taps}

    def embed(self, tokens: Tensor, run_body: RunBody) -> Tensor:
        """What the first block sees of tokens [n], [n, hidden]; refused where the position changes it."""
        parts = []
        for chunk in torch.split(tokens, ROW_TILE):
            tile = pad_rows(chunk[:, None])[:, 0]
            near, far = (
                self._first_block_input(run_body, tile, positions)
                for positions in (torch.zeros_like(tile), torch.ones_like(tile))
            )
            if near.dim() != 3 or not torch.equal(near, far):
                raise ForerunError(
                    "a target with one embedding per token",
                    f"{self._model_name}, whose first block sees something else",
                    "choose a method that does not borrow embeddings",
                )
            parts.append(near[0, : len(chunk)])
        return torch.cat(parts)

    def _first_block_input(self, run_body: RunBody, tokens: Tensor, positions: Tensor) -> Tensor:
        token = _ONLY_EMBEDDING.set(True)
        try:
            run_body(tokens[None], positions[None])
        except _ReachedFirstBlockError as reached:
            return reached.hidden
        finally:
            _ONLY_EMBEDDING.reset(token)
        raise AssertionError("a forward reaches its first block")

    def _block_hook(self, tap: Tap) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            tile = tile_in_flight()
            if tile is not None and tap in tile.taps:
                # A block that runs more than once has no one state; the empty tensor is refused in ``finish``.
                tile.states[tap] = torch.empty(0) if tap in tile.states else _first(output)

        return hook

    def _norm_hook(self, _: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        tile = tile_in_flight()
        if tile is not None and arguments:
            tile.norms.append((arguments[0], output))

    def _first_block_hook(self, _: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if _ONLY_EMBEDDING.get():
            raise _ReachedFirstBlockError(arguments[0] if arguments else keywords["hidden_states"])


def _described(tap: Tap) -> str:
    return f"block {tap.block}" if tap.kind is TapKind.BLOCK else f"the tap {tap.kind.value!r}"
