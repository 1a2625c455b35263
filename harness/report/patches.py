"""Diffs for people: between the trees of a run, encoded and capped. `strop export --patch` makes the exact ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio.to_thread

from harness.archive.base import LedgerEntry
from harness.records import Variant
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.report.numbers import part
from harness.tree import File, Tree
from harness.untrusted import clean

CHARACTERS = 40_000
DIFFED_BYTES = 400_000


class Patches:
    """Reads a run's trees, each once, and tells how they differ."""

    def __init__(self, folder: Path) -> None:
        self._store = TreeStore(folder / FOLDER_NAME)
        self._trees: dict[str, Tree] = {}

    async def between(self, old: str, new: str) -> str:
        """The unified diff from one tree id to another; empty when they are the same."""
        before, after = await self._tree(old), await self._tree(new)
        return await anyio.to_thread.run_sync(unified, before, after)

    async def of_tickets(self, rows: Sequence[LedgerEntry], variants: Mapping[str, Variant]) -> dict[int, str]:
        """Every ticket's diff against its parent, by ticket; refused proposals have none."""
        found: dict[int, str] = {}
        for row in rows:
            if row.body is None or row.ticket is None:
                continue
            tree, parent = part(row.body, "proposal").get("tree"), variants.get(str(row.body["parent"]))
            if isinstance(tree, str) and parent is not None:
                found[row.ticket] = await self.between(parent.tree, tree)
        return found

    async def _tree(self, name: str) -> Tree:
        if name not in self._trees:
            if not self._trees:
                await self._store.view()
            self._trees[name] = await self._store.read(name)
        return self._trees[name]


def unified(old: Tree, new: Tree) -> str:
    """A unified diff of two trees, encoded, and cut in the middle beyond `CHARACTERS`."""
    return clean("".join(_lines(old, new)), CHARACTERS)


def _lines(old: Tree, new: Tree) -> Iterator[str]:
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before != after:
            yield from _file(path, before, after)


def _file(path: str, before: File | None, after: File | None) -> Iterator[str]:
    if before is not None and after is not None and before.executable != after.executable:
        yield f"mode of {path}: {_mode(before)} -> {_mode(after)}\n"
    texts = [b"" if file is None else file.data for file in (before, after)]
    names = ["/dev/null" if file is None else side + path for file, side in ((before, "a/"), (after, "b/"))]
    if any(b"\0" in text or len(text) > DIFFED_BYTES for text in texts):
        yield f"--- {names[0]}\n+++ {names[1]}\n{len(texts[0])} bytes -> {len(texts[1])} bytes, not shown\n"
        return
    for text in difflib.unified_diff(_split(texts[0]), _split(texts[1]), names[0], names[1]):
        yield text if text.endswith("\n") else text + "\n\\ No newline at end of file\n"


def _split(data: bytes) -> list[str]:
    lines = data.decode("utf-8", "backslashreplace").split("\n")
    return [text + "\n" for text in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _mode(file: File) -> str:
    return "755" if file.executable else "644"
