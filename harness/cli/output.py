"""Where output goes: one console for people, plain JSON for machines."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 200


def console(*, stderr: bool = False) -> Console:
    """A rich console that never reads markup or emoji out of what it is given."""
    from rich.console import Console

    class Open(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    out = Open(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out.width = PIPED_WIDTH
    return out


def print_json(value: object) -> None:
    """One JSON document on stdout. NaN and Infinity are refused: they are not JSON."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


VERDICT_STYLE = {
    "kept": "bold green",
    "archived": "green",
    "discarded": "dim",
    "blocked": "bold red",
    "crashed": "yellow",
    "timed_out": "yellow",
    "duplicate": "dim",
    "no_proposal": "dim",
    "infra": "magenta",
}
