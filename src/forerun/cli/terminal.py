"""Standard output as rich draws on it."""

from __future__ import annotations

from rich.console import Console


class Terminal(Console):
    """Leaves it to ``main`` to deal with a reader who left; rich itself would exit with an error."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> None:
        """Called while the BrokenPipeError is handled."""
        raise
