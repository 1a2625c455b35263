"""How much a variant differs from the root, in lines: the smaller of two that are equally good is the better one."""

from __future__ import annotations

from collections import Counter

from harness.tree import File, Tree


def diff_lines(root: Tree, tree: Tree) -> int:
    """Lines added plus lines removed over all files. Order within a file does not count, which makes it exact and
    quick; a moved line is no change."""
    total = 0
    for path in {*root, *tree}:
        before, after = root.get(path), tree.get(path)
        if before != after:
            old, new = _lines(before), _lines(after)
            total += sum((old - new).values()) + sum((new - old).values())
    return total


def _lines(file: File | None) -> Counter[bytes]:
    return Counter(file.data.split(b"\n")) if file is not None else Counter()
