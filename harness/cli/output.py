"""Where output goes: one console for people, plain JSON for machines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PIPED_WIDTH = 200
NARROW = 60
_ALIGNED = 24


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


@contextmanager
def working(text: str) -> Generator[Callable[[str], None]]:
    """A live line that says what is being done, gone when it is done: on standard error, and on a terminal only.

    Yields what changes its text.
    """
    out = console(stderr=True)
    if not out.is_terminal or out.is_dumb_terminal:
        yield lambda text: None
        return
    with out.status(text) as status:
        yield status.update


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], *, right: Collection[str] = ()) -> None:
    """Rows under their columns; the last column is prose.

    On a terminal a table; without one a line a row, never cut or padded at its end; on a narrow one the same, without
    columns.
    """
    out = console()
    if out.is_terminal and out.width >= NARROW:
        _print_table(out, columns, rows, right)
        return
    texts = [[str(cell) for cell in row] for row in ([] if out.width < NARROW else [columns])]
    texts += [[str(cell) for cell in row] for row in rows]
    if out.width < NARROW:
        said = ["  ".join(filter(None, row)) for row in texts]
    else:
        widths = [min(_ALIGNED, max((len(row[at]) for row in texts), default=0)) for at in range(len(columns))]
        said = [_aligned(row, columns, widths, right) for row in texts]
    sys.stdout.write("".join(f"{row}\n" for row in said))


def _aligned(row: Sequence[str], columns: Sequence[str], widths: Sequence[int], right: Collection[str]) -> str:
    cells = [
        text.rjust(width) if name in right else text.ljust(width)
        for text, name, width in zip(row, columns, widths, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _print_table(
    out: Console, columns: Sequence[str], rows: Sequence[Sequence[str | Text]], right: Collection[str]
) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        prose = column == columns[-1]
        justify = "right" if column in right else "left"
        table.add_column(column, justify=justify, no_wrap=not prose, overflow="fold" if prose else "ellipsis")
    for row in rows:
        table.add_row(*row)
    out.print(table)


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
