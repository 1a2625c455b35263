"""A whole archive as one signed file, and back into a run folder like any other.

The file holds every record and every tree: ledger, proposals, variants, attempts, rollouts, model calls, root, splits
with their labels, scorer. Import trusts none of it: rows go into tables of our own, objects are named by what they
hash to, and the run is verified from the first row to the last lock before it has a name.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.to_thread

from harness.archive.ledger import canonical
from harness.archive.lock import RunLock
from harness.archive.parcel import Parcel, Reader, Sink, read_parcel, write_parcel
from harness.archive.sqlite import SqliteArchive
from harness.clock import SystemClock
from harness.errors import InputError, IntegrityError, StorageError, StropError
from harness.records import Json
from harness.repo.objects import ObjectKind, is_object_id
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.cross_check import fold
from harness.research.opening import run_body
from harness.research.runs import new_folder
from harness.research.verify import VerifyReport, held_refs, verify
from harness.untrusted import line
from harness.version import VERSION

IMPORTED = "imported"
_STAGE = ".importing-"
_YOUNG_S = 60.0


@dataclass(frozen=True, slots=True)
class Imported:
    """A run that came out of a file: where it lies, who signed it, and what was verified."""

    folder: Path
    key: str
    header: Mapping[str, Json]
    report: VerifyReport


async def export_archive(folder: Path, path: Path) -> Mapping[str, Json]:
    """Write the run in `folder`, finished or not, to the new file `path`; its signed header.

    Raises IntegrityError for a run that is not what was written: nothing broken is signed.
    """
    await verify(folder)
    archive = await SqliteArchive.view(folder)
    try:
        store = TreeStore(folder / FOLDER_NAME)
        await store.view()
        packing = _Packing(folder.name, archive, store)
        return await anyio.to_thread.run_sync(lambda: write_parcel(path, packing.fill))
    finally:
        await archive.aclose()


async def import_archive(path: Path, runs: Path, *, name: str | None = None, expect: str | None = None) -> Imported:
    """The archive in the file as a run below `runs`, under the name it had or another.

    Raises IntegrityError when a bit of it differs from what was signed, or the signer is not `expect`.
    """
    parcel = await anyio.to_thread.run_sync(read_parcel, path)
    if expect is not None and parcel.key != expect:
        raise IntegrityError("the signing key", expected=expect, found=parcel.key)
    wanted = name or line(str(parcel.header.get("run")), 100)
    stage = await anyio.to_thread.run_sync(_stage, runs)
    try:
        with RunLock(stage):
            report = await unpack(parcel, stage / "run")
        folder = await anyio.to_thread.run_sync(_folder, runs, wanted)
        await anyio.to_thread.run_sync((stage / "run").rename, folder)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(stage, ignore_errors=True))
    return Imported(folder, parcel.key, parcel.header, report)


def _folder(runs: Path, name: str) -> Path:
    try:
        return new_folder(runs, name, "", name)
    except InputError as error:
        mend = "import it under another: --name NAME, of letters, digits, '.', '_' and '-'"
        raise InputError(error.problem, file=runs, key="--name", mend=mend) from error


async def unpack(parcel: Parcel, folder: Path) -> VerifyReport:
    """Lay the run of a checked file in the new folder `folder` and verify all of it. Raises IntegrityError."""
    reader = await anyio.to_thread.run_sync(parcel.reader)
    content = _Content(reader)
    try:
        archive = await SqliteArchive.create(folder)
        try:
            await archive.fill(content.rows())
            standing = await archive.sound_fold(fold)
            body = _body(await archive.frame())
            store = TreeStore(folder / FOLDER_NAME)
            await store.create()
            await store.fill(content.objects(), _safe(held_refs(body, standing.variants)))
            _, row_hash, seal = head = await archive.head_at()
            signed = (parcel.header.get("seq"), parcel.header.get("hash"), parcel.header.get("seal"))
            if head != signed:
                raise IntegrityError("the ledger's head", expected=str(signed[1]), found=row_hash)
            await store.anchor(row_hash, seal, head[0])
            await archive.set_meta(IMPORTED, {"key": parcel.key, "hash": row_hash})
        finally:
            await archive.aclose()
        return await verify(folder)
    finally:
        await anyio.to_thread.run_sync(reader.close)


@dataclass
class _Packing:
    """Fills a payload: every row, then every object that the rows name."""

    name: str
    archive: SqliteArchive
    store: TreeStore
    trees: dict[str, None] = field(default_factory=dict[str, None])
    run: Mapping[str, Any] = field(default_factory=dict[str, Any])
    head: tuple[int, str, str] = (0, "", "")
    tickets: int = 0
    variants: int = 0

    def fill(self, sink: Sink) -> Mapping[str, Json]:
        """Called in a thread of the event loop."""

        def row(table: str, values: list[Json]) -> None:
            self._note(table, values)
            sink(canonical(["row", table, values]).encode() + b"\n")

        def thing(kind: ObjectKind, data: bytes) -> None:
            sink(canonical(["object", kind, len(data)]).encode() + b"\n")
            sink(data)

        anyio.from_thread.run(self.archive.pour, row)
        anyio.from_thread.run(self.store.pour, self.trees, thing)
        if not self.run:
            raise InputError("the run stopped before it was written down", mend="there is nothing to export")
        sink(canonical(["end"]).encode() + b"\n")
        return {
            "run": self.name,
            "subject": str(self.run["subject"]["subject"]["name"]),
            "seq": self.head[0],
            "hash": self.head[1],
            "seal": self.head[2],
            "tickets": self.tickets,
            "variants": self.variants,
            "made": SystemClock().now(),
            "strop": VERSION,
        }

    def _note(self, table: str, values: list[Json]) -> None:
        if table == "ledger":
            seq, kind, _, body, _, row_hash, seal = cast("tuple[Any, ...]", tuple(values))
            self.head = (seq, row_hash, seal)
            if kind == "run":
                self.run = json.loads(body)
                self.trees |= dict.fromkeys(held_refs(self.run, {}).values())
            self.tickets += kind == "ticket"
        elif table in ("proposals", "variants") and isinstance(values[2], str):
            self.trees[values[2]] = None
            self.variants += table == "variants"


@dataclass
class _Content:
    """What a payload holds, in the order it was written; read once."""

    reader: Reader
    _lines: Iterator[Any] = field(init=False)
    _ahead: Any = None

    def __post_init__(self) -> None:
        self._lines = self.reader.lines()

    def rows(self) -> Iterator[tuple[object, list[object]]]:
        """The rows of every table."""
        for told in self._lines:
            row = cast("list[Any]", told) if isinstance(told, list) else []
            if row[:1] != ["row"]:
                self._ahead = told
                return
            if [type(one) for one in row] != [str, str, list]:
                raise IntegrityError("the payload", expected="a row", found=repr(row)[:80])
            yield row[1], row[2]

    def objects(self) -> Iterator[tuple[ObjectKind, bytes]]:
        """The objects that follow them, to the end."""
        told = self._ahead
        while True:
            match told:
                case ["object", ("blob" | "tree") as kind, size]:
                    yield cast("ObjectKind", kind), self.reader.take(size)
                case ["end"]:
                    break
                case _:
                    raise IntegrityError("the payload", expected="an object or the end", found=repr(told)[:80])
            told = next(self._lines, None)
        if next(self._lines, None) is not None:
            raise IntegrityError("the payload", expected="nothing after the end", found="more")


def _body(rows: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a sequence of ledger rows
    try:
        return run_body(rows)
    except InputError as error:
        raise IntegrityError("ledger 1", expected="the run entry", found="none") from error


def _safe(refs: Mapping[str, str]) -> Mapping[str, str]:
    """Refs as git's own command takes them: plain names, whole ids."""
    for name, tree_id in refs.items():
        if not name.isascii() or not name.replace("/", "").replace(".", "").replace("_", "").isalnum():
            raise IntegrityError(f"ref {line(name, 80)}", expected="a plain name", found="another")
        if not is_object_id(tree_id):
            raise IntegrityError(f"ref {name}", expected="an object id", found=line(tree_id, 80))
    return refs


def _sweep(stage: Path) -> None:
    """Remove what an import left that was killed: nobody holds it. A young one may not be held yet."""
    with suppress(OSError, StropError):
        if not stage.is_symlink() and time.time() - stage.stat().st_mtime > _YOUNG_S:
            with RunLock(stage):
                shutil.rmtree(stage, ignore_errors=True)


def _stage(runs: Path) -> Path:
    try:
        runs.mkdir(parents=True, exist_ok=True)
        for old in runs.glob(f"{_STAGE}*"):
            _sweep(old)
        return Path(tempfile.mkdtemp(prefix=_STAGE, dir=runs.resolve()))
    except OSError as error:
        mend = "free space, fix permissions, or name another folder with --runs"
        raise StorageError(runs, reason=error.strerror or str(error), mend=mend) from error
