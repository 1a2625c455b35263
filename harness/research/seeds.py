"""What a run that begins with an earlier one's variants has written down of them, and how each becomes a proposal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.agent.base import Proposal
from harness.records import Json, Verdict
from harness.repo.objects import ObjectKind
from harness.repo.store import TreeStore
from harness.research.standing import ROOT, Standing
from harness.untrusted import line


@dataclass(frozen=True, slots=True)
class Seed:
    """One variant to begin with. `parent` is the ticket that proposes its nearest ancestor among them, 0 the root."""

    variant: str
    tree: str
    parent: int
    note: str


@dataclass(frozen=True, slots=True)
class Sowing:
    """Where a run begins from: the earlier run, its head, and what is taken of it. `objects` are the trees' own."""

    run: str
    head: str
    seeds: Sequence[Seed]
    objects: Sequence[tuple[ObjectKind, bytes]] = ()

    def as_json(self) -> dict[str, Json]:
        """As the `run` entry holds it under `from`."""
        rows: list[Json] = [
            {"variant": one.variant, "tree": one.tree, "parent": one.parent, "note": one.note} for one in self.seeds
        ]
        return {"run": self.run, "hash": self.head, "variants": rows}


def sown(body: Mapping[str, Any]) -> list[Seed]:
    """The seeds that a `run` entry names; none for most runs."""
    told: Any = body.get("from")
    rows: list[Any] = told["variants"] if told else []
    return [Seed(row["variant"], row["tree"], row["parent"], row["note"]) for row in rows]


def sown_parent(seeds: Sequence[Seed], ticket: int, standing: Standing, *, archived: bool) -> str:
    """Who counts as the parent of a seed: its nearest ancestor that this run let in too, else the root.

    `archived`: any possible parent will do; else only what was kept. Read once the parent's ticket is decided.
    """
    fit = {Verdict.KEPT, Verdict.ARCHIVED} if archived else {Verdict.KEPT}
    above = seeds[ticket - 1].parent
    while above:
        found = standing.variants.get(f"v{above}")
        if found is not None and found.verdict in fit:
            return found.id
        above = seeds[above - 1].parent
    return ROOT


async def seed_proposal(store: TreeStore, seed: Seed) -> Proposal:
    """The seed as a proposal for the door."""
    tree = await store.read(seed.tree)
    memo: dict[str, Json] = {"from": seed.variant}
    return Proposal(
        tree=tuple(tree.entries()), note=line(f"{seed.variant} of the run before: {seed.note}", 300), memo=memo
    )
