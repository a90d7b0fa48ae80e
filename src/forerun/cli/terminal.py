"""Standard output as rich draws on it."""

from __future__ import annotations

import os

from rich.console import Console

# What the tables are made for; a pipe has no width of its own.
PIPED_WIDTH = 100


class Terminal(Console):
    """Leaves it to ``main`` to deal with a reader who left; rich itself would exit with an error."""

    def __init__(self) -> None:
        super().__init__(highlight=False)
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = PIPED_WIDTH

    def on_broken_pipe(self) -> None:
        """Called while the BrokenPipeError is handled."""
        raise
