"""Is a run still what it was when it was written? Everything is computed again, nothing is trusted.

The order is: the anchor, the ledger's chains, what the ledger says about itself, the tables against the ledger, the
trees object by object, the locks. The first record that differs is named.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from harness.archive.ledger import ZEROS, verify_chain
from harness.archive.reading import Contents
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError, IntegrityError
from harness.policy.locks import Globs
from harness.policy.schema import SubjectFile
from harness.records import Json, Variant
from harness.repo.door import judge
from harness.repo.store import ANCHOR_REF, FOLDER_NAME, TreeStore
from harness.research.cross_check import check_tables, fold
from harness.research.mounts import check_mounts
from harness.research.runs import was_a_run
from harness.research.seeds import sown

Anchor = tuple[str, str, int]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was looked at and found sound.

    `rollouts` counts those the ledger cites, `objects` the distinct git objects hashed again. `anchor_lag` is how many
    ledger rows the anchor does not know yet: more than 0 after a crash or beside a live run, until the run goes on.
    `mounts` counts the mounted folders that were hashed again, `mounts_elsewhere` those that are not on this machine.
    """

    entries: int
    tickets: int
    variants: int
    rollouts: int
    trees: int
    objects: int
    hash: str
    seal: str
    anchor_lag: int
    mounts: int = 0
    mounts_elsewhere: int = 0

    def as_json(self) -> dict[str, Json]:
        """For `strop verify --json`."""
        return asdict(self)


async def verify(folder: Path) -> VerifyReport:
    """Check the run in `folder`, also while it is live or on a read-only copy.

    Raises IntegrityError naming the first record that differs, InputError when there is no run.
    """
    try:
        return await _verify(folder)
    except InputError as error:
        if await anyio.to_thread.run_sync(was_a_run, folder):
            raise IntegrityError("the run folder", expected="the records of a run", found=error.problem) from error
        raise


async def _verify(folder: Path) -> VerifyReport:
    archive = await SqliteArchive.view(folder)
    try:
        store = TreeStore(folder / FOLDER_NAME)
        await store.view()
        # the anchor first: a live owner may append in between, and then it only lags
        anchor = await store.anchored()
        contents = await archive.contents()
        await archive.meta()  # it decides nothing, but must be readable
    finally:
        await archive.aclose()
    rows = contents.ledger
    verify_chain(rows)
    named = rows[anchor[2] - 1] if anchor is not None and 0 < anchor[2] <= len(rows) else None
    lag = check_anchor(anchor, len(rows), None if named is None else (named.hash, named.seal))
    standing = fold(rows)
    cited = check_tables(contents, standing)
    trees, objects = await _check_trees(store, contents, standing.variants)
    mounts = elsewhere = 0
    if rows and rows[0].body is not None:
        mounts, elsewhere = await check_mounts(rows[0].body, rows[0].obs, store, may_be_elsewhere=True)
    head = rows[-1] if rows else None
    return VerifyReport(
        entries=len(rows),
        tickets=sum(row.kind == "ticket" for row in rows),
        variants=len(standing.variants),
        rollouts=cited,
        trees=trees,
        objects=objects,
        hash=head.hash if head else ZEROS,
        seal=head.seal if head else ZEROS,
        anchor_lag=lag,
        mounts=mounts,
        mounts_elsewhere=elsewhere,
    )


async def settle_anchor(archive: SqliteArchive, store: TreeStore, *, count: int | None = None) -> int:
    """Bring an anchor that a crash left behind up to the ledger's head; how many rows it lagged by.

    For the owner, before the first write of a resumed run. `count` is how many rows the ledger has, for one who has
    just computed both chains over all of them. Raises IntegrityError when the ledger's chains are broken
    or the anchor knows a row that the ledger has not: then the ledger was cut or written anew.
    """
    if count is None:
        count = await archive.check_ledger()
    anchor = await store.anchored()
    known = None if anchor is None or not anchor[2] else await archive.links(anchor[2])
    lag = check_anchor(anchor, count, known)
    if lag:
        seq, row_hash, seal = await archive.head_at()
        await store.anchor(row_hash, seal, seq)
    return lag


def check_anchor(anchor: Anchor | None, count: int, known: tuple[str, str] | None) -> int:
    """How many of the ledger's `count` rows the anchor lags by; `known` is (hash, seal) of the row it names.

    Raises IntegrityError when it leads or names another history.
    """
    if anchor is None:
        raise IntegrityError(f"anchor {ANCHOR_REF}", expected="the ledger's head", found="nothing")
    row_hash, seal, seq = anchor
    if not 0 <= seq <= count:
        raise IntegrityError(f"ledger {count + 1}", expected=f"{seq} rows, as anchored", found="the end: it was cut")
    found = known if seq and known is not None else (ZEROS, ZEROS)
    if found != (row_hash, seal):
        raise IntegrityError(f"ledger {seq}", expected=f"seal {seal}, as anchored", found=f"seal {found[1]}")
    return count - seq


async def _check_trees(store: TreeStore, contents: Contents, variants: Mapping[str, Variant]) -> tuple[int, int]:
    run: Any = contents.ledger[0].body if contents.ledger else None
    if run is None:
        return 0, 0
    await _check_refs(store, run, variants)
    wanted = {"root": str(run["root_tree"]), **{f"pinned {name}": str(tree) for name, tree in run["pinned"].items()}}
    for name, tree_id in wanted.items():
        expected = str(run["digests"][name.removeprefix("pinned ")])
        found = (await _named(f"{name} tree", store.read(tree_id))).digest
        if found != expected:
            raise IntegrityError(f"{name} tree", expected=f"digest {expected}", found=f"digest {found}")
    wanted |= {f"seed {one.variant}": one.tree for one in sown(run)}
    wanted |= {f"variant {name}": variant.tree for name, variant in variants.items()}
    wanted |= {f"ticket {one.ticket}": one.tree for one in contents.proposals if one.tree is not None}
    objects: set[str] = set()
    for name, tree_id in wanted.items():
        await _named(f"{name} tree", store.check(tree_id, objects))
    await _check_locks(store, run, variants)
    return len(set(wanted.values())), len(objects)


async def _check_locks(store: TreeStore, run: Mapping[str, Any], variants: Mapping[str, Variant]) -> None:
    """No archived variant differs from its parent anywhere but in editable paths."""
    editable = Globs(SubjectFile.model_validate(run["subject"]).subject.editable)
    # every object is known to be what its id says, so equal ids are equal files
    for name, variant in variants.items():
        tree = await store.listing(variant.tree)
        for parent in variant.parents:
            faults = judge(await store.listing(variants[parent].tree), tree, editable, new=False)
            if faults:
                raise IntegrityError(f"variant {name}", expected="editable changes only", found=str(faults[0]))


async def _check_refs(store: TreeStore, run: Mapping[str, Any], variants: Mapping[str, Variant]) -> None:
    held = await store.kept()
    for name, tree_id in held_refs(run, variants).items():
        if held.get(name) != tree_id:
            raise IntegrityError(f"ref refs/strop/{name}", expected=str(tree_id), found=str(held.get(name, "nothing")))


def held_refs(run: Mapping[str, Any], variants: Mapping[str, Variant]) -> dict[str, str]:
    """Every ref that a run holds below refs/strop/, and the tree it holds."""
    refs = {"root": str(run["root_tree"]), **{f"pinned/{name}": str(tree) for name, tree in run["pinned"].items()}}
    refs |= {f"from/{number}": one.tree for number, one in enumerate(sown(run), start=1)}
    return refs | {f"variants/{name}": variant.tree for name, variant in variants.items() if variant.ticket}


async def _named(name: str, work: Awaitable[_T]) -> _T:
    try:
        return await work
    except IntegrityError as error:
        raise IntegrityError(f"{name}: {error.record}", expected=error.expected, found=error.found) from error
