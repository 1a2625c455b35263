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
    characters, printable, the number of those left out in the last."""
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
    for row in difflib.unified_diff(old, new, n=0, lineterm=""):
        if not row.startswith(("---", "+++", "@@")):
            yield f"{row[0]} {row[1:]}"
