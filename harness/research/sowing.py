"""A new run that begins with what an earlier one archived.

Its first tickets propose the earlier run's variants, parents before children. Each passes the door, the checks, the
stages and the holdout of the new run like any other proposal: nothing of the earlier run's scores is believed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from harness.archive.parcel import read_parcel
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError
from harness.records import Verdict
from harness.repo.objects import ObjectKind
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.cross_check import fold
from harness.research.seeds import Seed, Sowing
from harness.research.standing import ROOT, Standing
from harness.research.transfer import unpack
from harness.untrusted import line


async def gather(source: Path, most: int | None = None) -> Sowing:
    """What the run at `source`, a run folder or an exported file, has to begin with: its `most` best, or all.

    Raises InputError when there is nothing, IntegrityError for a file that is not what was signed.
    """
    if await anyio.to_thread.run_sync(source.is_file):
        parcel = await anyio.to_thread.run_sync(read_parcel, source)
        with tempfile.TemporaryDirectory(prefix="strop-from-") as place:
            await unpack(parcel, Path(place) / "run")
            return await _gather(Path(place) / "run", line(str(parcel.header.get("run")), 100), most)
    return await _gather(source, source.name, most)


async def _gather(folder: Path, name: str, most: int | None) -> Sowing:
    archive = await SqliteArchive.view(folder)
    try:
        standing = await archive.sound_fold(fold)
        head, _ = await archive.head()
    finally:
        await archive.aclose()
    chosen = _chosen(standing, most)
    if not chosen:
        raise InputError("archived nothing but its root", file=folder, key="--from", mend="start without it")
    place = {name: number for number, name in enumerate(chosen, start=1)}
    seeds = [
        Seed(name, standing.variants[name].tree, _above(standing, place, name), standing.variants[name].note)
        for name in chosen
    ]
    store = TreeStore(folder / FOLDER_NAME)
    await store.view()
    found: list[tuple[ObjectKind, bytes]] = []
    await store.pour(dict.fromkeys(one.tree for one in seeds), lambda kind, data: found.append((kind, data)))
    return Sowing(name, head, seeds, found)


def _chosen(standing: Standing, most: int | None) -> list[str]:
    """Possible parents of an archive, or what an incumbent's run kept; the best of them, in the order they came."""
    if not standing.marks:
        return []
    if standing.changes:
        worth = {name: member.score for name, member in standing.members.items() if name != ROOT}
    else:
        kept = (one for one in standing.variants.values() if one.verdict is Verdict.KEPT and one.id != ROOT)
        worth = {one.id: float(one.ticket) for one in kept}
    best = sorted(worth, key=lambda name: (-worth[name], standing.variants[name].ticket))
    return sorted(best[:most], key=lambda name: standing.variants[name].ticket)


def _above(standing: Standing, place: Mapping[str, int], name: str) -> int:
    """The ticket of the nearest ancestor that is taken along; 0 when only the root is."""
    ahead, seen = list(standing.variants[name].parents), set[str]()
    for one in ahead:
        if one in place:
            return place[one]
        if one not in seen:
            seen.add(one)
            ahead += standing.variants[one].parents
    return 0
