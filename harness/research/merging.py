"""Two variants made one: a three-way merge of their trees against their nearest common ancestor. Pure.

What only one side changed is taken; where both changed a file, its lines are merged, and lines that both changed in
different ways are a conflict. Nothing is guessed: with a conflict there is no merge.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.tree import File, Tree

_Edit = tuple[int, int, list[bytes]]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Paths that both sides changed in ways that do not go together."""

    paths: tuple[str, ...]


def merge_trees(base: Tree, ours: Tree, theirs: Tree) -> Tree | Conflict:
    """The merge of `ours` and `theirs`, both descended from `base`."""
    merged: dict[str, File] = {}
    conflicts: list[str] = []
    for path in sorted({*base, *ours, *theirs}):
        was, one, other = base.get(path), ours.get(path), theirs.get(path)
        if other in (one, was):
            taken = one
        elif one == was:
            taken = other
        else:
            taken = _merge_file(was, one, other)
            if taken is None:
                conflicts.append(path)
        if taken is not None:
            merged[path] = taken
    return Conflict(tuple(conflicts)) if conflicts else Tree(merged)


def _merge_file(was: File | None, one: File | None, other: File | None) -> File | None:
    """None for a conflict: also where one side removed what the other changed, or both added a file."""
    if was is None or one is None or other is None:
        return None
    if b"\0" in was.data + one.data + other.data:
        return None
    lines = merge_lines(*(file.data.splitlines(keepends=True) for file in (was, one, other)))
    executable = other.executable if one.executable == was.executable else one.executable
    return None if lines is None else File(b"".join(lines), executable)


def merge_lines(base: Sequence[bytes], ours: Sequence[bytes], theirs: Sequence[bytes]) -> list[bytes] | None:
    """Both sides' edits of `base` applied; None when two different ones touch the same or neighbouring lines."""
    edits: list[_Edit] = []
    mine, others = list(_edits(base, ours)), list(_edits(base, theirs))
    for edit in mine:
        for another in others:
            if edit != another and edit[0] <= another[1] and another[0] <= edit[1]:
                return None
    for edit in sorted([*mine, *(another for another in others if another not in mine)], key=lambda one: one[:2]):
        edits.append(edit)
    merged: list[bytes] = []
    at = 0
    for start, end, new in edits:
        merged += base[at:start]
        merged += new
        at = end
    return [*merged, *base[at:]]


def _edits(base: Sequence[bytes], changed: Sequence[bytes]) -> Iterator[_Edit]:
    """(start, end, new lines) of every place where `changed` differs from `base`."""
    matcher = difflib.SequenceMatcher(None, base, changed, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind != "equal":
            yield start, end, list(changed[first:last])
