"""Diffs for people: between the trees of a run, encoded and capped. `strop export --patch` makes the exact ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from harness.archive.base import LedgerEntry
from harness.records import Variant
from harness.repo.diff import unified
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.report.numbers import part
from harness.research.lineage import lineage_of, resolve
from harness.tree import Tree
from harness.untrusted import line

CHARACTERS = 40_000
TREES = 4


@dataclass(frozen=True, slots=True)
class Step:
    """What a variant changed of one of its parents."""

    parent: str
    variant: str
    note: str
    patch: str


async def generations(folder: Path, name: str) -> list[Step]:
    """Every change on the way from the root to a variant, the oldest first; both sides of a merge.

    Raises InputError.
    """
    found, standing = await lineage_of(folder)
    name = resolve(standing, name)
    between = Patches(folder)
    steps: list[Step] = []
    for one in [*found.ancestors(name), name]:
        variant = found.variants[one]
        for parent in variant.parents:
            patch = await between.between(found.variants[parent].tree, variant.tree)
            steps.append(Step(parent, one, line(variant.note, 300), patch))
    return steps


class Patches:
    """Reads a run's trees and tells how they differ. The last few stay at hand: a parent has many children."""

    def __init__(self, folder: Path) -> None:
        self._store = TreeStore(folder / FOLDER_NAME)
        self._trees: dict[str, Tree] = {}

    async def between(self, old: str, new: str) -> str:
        """The unified diff from one tree id to another; empty when they are the same."""
        before, after = await self._tree(old), await self._tree(new)
        return await anyio.to_thread.run_sync(lambda: unified(before, after, limit=CHARACTERS))

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
        found = self._trees.pop(name, None)
        if found is None:
            if not self._trees:
                await self._store.view()
            found = await self._store.read(name)
        self._trees[name] = found
        if len(self._trees) > TREES:
            self._trees.pop(next(iter(self._trees)))
        return found
