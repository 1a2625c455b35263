"""What a proposal changed, line by line, for those who propose after it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from harness.tree import Tree
from harness.untrusted import line

_MOST_ROWS = 16
_MOST_WIDE = 160


def gist(tree: Tree, changes: Mapping[str, bytes | None]) -> str:
    """The lines that `changes` take from `tree` and put into it, without their surroundings: at most 16 rows of 160
    characters, printable, the number of those left out in the last.

    Not a diff: small models would take it for the way to answer, and say it again.
    """
    rows = [line(row, _MOST_WIDE) for path, data in sorted(changes.items()) for row in _rows(tree, path, data)]
    left = len(rows) - _MOST_ROWS
    return "\n".join(rows if left <= 0 else [*rows[:_MOST_ROWS], f"({left} more rows)"])


def _rows(tree: Tree, path: str, data: bytes | None) -> Iterator[str]:
    before = tree[path].data if path in tree else b""
    if data is None:
        yield f"{path}: removed"
        return
    try:
        old, new = before.decode().splitlines(), data.decode().splitlines()
    except UnicodeDecodeError:
        yield f"{path}: {len(data)} bytes, not text"
        return
    yield f"{path}:"
    for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        gone, come = old[first:last], new[start:end]
        if len(gone) == len(come):
            yield from (f"{before.strip()}  ->  {after.strip()}" for before, after in zip(gone, come, strict=True))
        else:
            yield from (f"without  {row.strip()}" for row in gone)
            yield from (f"with  {row.strip()}" for row in come)
