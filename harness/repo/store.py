"""The run's trees: a bare git repository that only plumbing ever touches.

Objects are written and read here byte by byte (every read is hashed again), refs move by compare-and-swap. The
one importer of GitPython, whose object database finds objects loose or packed.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar, cast

import anyio.to_thread
from anyio import CapacityLimiter
from git.db import GitDB
from git.exc import BadObject

from harness.errors import InputError, IntegrityError, StorageError
from harness.failpoint import failpoint
from harness.repo import objects
from harness.repo.git import GitError, run_git
from harness.repo.refs import fsync_folder, move_ref, read_ref
from harness.tree import File, Tree

FOLDER_NAME = "archive.git"
ANCHOR_REF = "refs/strop/head"
ZEROS = "0" * 64
PACK_FROM = 32
_BATCH, _BATCH_BYTES = 20_000, 64 * 2**20

_T = TypeVar("_T")
Tell = Callable[[objects.ObjectKind, bytes], None]


class _Stream(Protocol):
    type: bytes

    def read(self) -> bytes: ...


class _Database(Protocol):
    def has_object(self, sha: bytes) -> bool: ...

    def stream(self, sha: bytes) -> _Stream: ...


class TreeStore:
    """The bare repository at `path`. Every method returns only after what it wrote is on disk.

    One process writes (the run's lock sees to it), any number read. Raises StorageError when the folder cannot be
    written, IntegrityError when an object is missing or is not what its name says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._limiter = CapacityLimiter(1)
        self._db: _Database | None = None
        self._last_anchor: str | None = None
        self._known: set[str] = set()

    async def create(self) -> None:
        """Make the repository and anchor an empty ledger in it."""
        await self._run(self._create)

    async def open(self) -> None:
        """Open it as its owner: locks and half-written objects that a dead owner left are removed."""
        await self._run(lambda: self._open(repair=True))

    async def view(self) -> None:
        """Open it for reading only, also while its owner lives."""
        await self._run(lambda: self._open(repair=False))

    async def write(self, tree: Tree) -> str:
        """Store a tree; its git id."""
        return await self._run(lambda: self._write(tree))

    async def read(self, tree_id: str) -> Tree:
        """The tree by its id, every object hashed again on the way."""
        return await self._run(lambda: Tree(self._files(tree_id)))

    async def check(self, tree_id: str, seen: set[str]) -> None:
        """Hash every object of a tree again, less those in `seen`; what was sound is added to it."""
        await self._run(lambda: self._check(tree_id, seen))

    async def listing(self, tree_id: str) -> Tree:
        """The tree's paths and modes with each file's object id in place of its data: for comparing big trees."""
        return await self._run(lambda: Tree(self._listed(tree_id, "")))

    async def pour(self, tree_ids: Iterable[str], tell: Tell) -> None:
        """Tell (kind, bytes) of every object of these trees once, hashed again on the way; `tell` runs in a thread."""
        await self._run(lambda: self._pour(tree_ids, tell))

    async def fill(self, found: Iterable[tuple[objects.ObjectKind, bytes]], kept: Mapping[str, str]) -> None:
        """Store many objects, then hold many trees under `refs/strop/` at once: what `pour` told, in a new store."""
        await self._run(lambda: self._fill(found, kept))

    async def keep(self, ref: str, tree_id: str) -> None:
        """Hold a tree under `refs/strop/REF`. The same tree again is nothing new, another one an IntegrityError."""
        await self._run(lambda: self._keep(ref, tree_id))

    async def kept(self) -> dict[str, str]:
        """The tree id held by each ref of `keep`."""
        return await self._run(self._kept)

    async def anchor(self, ledger_hash: str, seal: str, seq: int) -> None:
        """Write down where the ledger stands, outside the ledger."""
        await self._run(lambda: self._anchor(ledger_hash, seal, seq))

    async def anchored(self) -> tuple[str, str, int] | None:
        """(hash, seal, seq) as last anchored; None when the anchor is gone."""
        return await self._run(self._anchored)

    async def _run(self, work: Callable[[], _T]) -> _T:
        return await anyio.to_thread.run_sync(lambda: self._guarded(work), limiter=self._limiter)

    def _guarded(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except OSError as error:
            raise StorageError(self.path, reason=error.strerror or str(error)) from error
        except GitError as error:
            raise StorageError(self.path, reason=error.said) from error

    def _create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if (self.path / "HEAD").exists() and read_ref(self.path, ANCHOR_REF) is not None:
            raise InputError("already holds the trees of a run", file=self.path, mend="choose a new run folder")
        run_git(["init", "--quiet", "--bare", "--template=", str(self.path)], cwd=self.path.parent)
        self._open(repair=True)
        self._anchor(ZEROS, ZEROS, 0)
        fsync_folder(self.path)
        fsync_folder(self.path.parent)

    def _open(self, *, repair: bool) -> None:
        if not (self.path / "objects").is_dir():
            raise InputError("holds no trees of a run", file=self.path, mend="name a run folder made by `strop run`")
        if repair:
            for stale in [*self.path.rglob("*.lock"), *self.path.glob("objects/*/tmp_*")]:
                stale.unlink(missing_ok=True)

    def _write(self, tree: Tree) -> str:
        whole, found = objects.encode(tree)
        self._put(found)
        return whole

    def _put(self, found: objects.Objects) -> None:
        missing = {name: one for name, one in found.items() if not self._has(name)}
        if len(missing) > PACK_FROM:
            # one file to wait for instead of hundreds
            run_git(["index-pack", "--stdin"], git_dir=self.path, stdin=objects.encode_pack(missing))
            fsync_folder(self.path / "objects" / "pack")
            self._db = None
            self._known.update(missing)
            return
        touched: set[Path] = set()
        for name, (kind, data) in missing.items():
            place = self._place(name)
            if not place.parent.exists():
                place.parent.mkdir(exist_ok=True)
                touched.add(place.parent.parent)
            self._put_one(place, b"%s %d\0%s" % (kind.encode(), len(data), data))
            touched.add(place.parent)
        for folder in touched:
            fsync_folder(folder)
        self._known.update(missing)

    def _has(self, name: str) -> bool:
        return name in self._known or self._place(name).exists() or self._objects.has_object(bytes.fromhex(name))

    def _place(self, name: str) -> Path:
        return self.path / "objects" / name[:2] / name[2:]

    def _put_one(self, place: Path, data: bytes) -> None:
        handle, draft = tempfile.mkstemp(prefix="tmp_obj_", dir=place.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.compress(data, 1))
                file.flush()
                os.fchmod(file.fileno(), 0o444)
                os.fsync(file.fileno())
            failpoint("object-written")
            Path(draft).rename(place)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(draft).unlink()
            raise

    def _get(self, name: str, kind: objects.ObjectKind) -> bytes:
        try:
            found, data = self._find(name)
        except OSError:
            raise
        except Exception as error:  # gitdb lets zlib, struct, index and value errors through for damaged files
            raise IntegrityError(f"object {name}", expected=f"a {kind}", found=type(error).__name__) from error
        if found != kind or objects.object_id(kind, data) != name:
            raise IntegrityError(f"object {name}", expected=f"the {kind} of that hash", found=f"another {found}")
        return data

    def _find(self, name: str) -> tuple[str, bytes]:
        try:
            stream = self._objects.stream(bytes.fromhex(name))
        except BadObject:
            # somebody's gc may have packed it since the packs were listed
            self._db = None
            stream = self._objects.stream(bytes.fromhex(name))
        return stream.type.decode("ascii", "replace"), stream.read()

    @property
    def _objects(self) -> _Database:
        if self._db is None:
            self._db = cast(_Database, GitDB(str(self.path / "objects")))
        return self._db

    def _files(self, tree_id: str) -> Iterable[tuple[str, File]]:
        for path, listed in self._listed(tree_id, ""):
            yield path, File(self._get(listed.data.decode(), "blob"), listed.executable)

    def _listed(self, tree_id: str, prefix: str) -> Iterable[tuple[str, File]]:
        for name, kind, child in objects.decode_folder(tree_id, self._get(tree_id, "tree")):
            if kind == "folder":
                yield from self._listed(child, f"{prefix}{name}/")
            else:
                yield prefix + name, File(child.encode(), executable=kind == "executable")

    def _check(self, tree_id: str, seen: set[str], tell: Tell | None = None) -> None:
        ahead: list[tuple[str, objects.ObjectKind]] = [(tree_id, "tree")]
        while ahead:
            name, kind = ahead.pop()
            if name in seen:
                continue
            data = self._get(name, kind)
            seen.add(name)
            if tell is not None:
                tell(kind, data)
            if kind == "tree":
                for _, row, child in objects.decode_folder(name, data):
                    ahead.append((child, "tree" if row == "folder" else "blob"))

    def _pour(self, tree_ids: Iterable[str], tell: Tell) -> None:
        seen: set[str] = set()
        for tree_id in tree_ids:
            self._check(tree_id, seen, tell)

    def _fill(self, found: Iterable[tuple[objects.ObjectKind, bytes]], kept: Mapping[str, str]) -> None:
        batch: dict[str, tuple[objects.ObjectKind, bytes]] = {}
        size = 0
        for kind, data in found:
            batch[objects.object_id(kind, data)] = kind, data
            size += len(data)
            if size > _BATCH_BYTES or len(batch) > _BATCH:
                self._put(batch)
                batch, size = {}, 0
        commits = {ref: objects.encode_commit(tree_id, ref) for ref, tree_id in kept.items()}
        for one in commits.values():
            batch[objects.object_id("commit", one)] = "commit", one
        self._put(batch)
        moves = [f"create refs/strop/{ref} {objects.object_id('commit', one)}\n" for ref, one in commits.items()]
        run_git(["update-ref", "--stdin"], git_dir=self.path, stdin="".join(moves).encode())

    def _keep(self, ref: str, tree_id: str) -> None:
        self._get(tree_id, "tree")
        data = objects.encode_commit(tree_id, ref)
        commit = objects.object_id("commit", data)
        name = f"refs/strop/{ref}"
        held = read_ref(self.path, name)
        if held == commit:
            return
        if held is not None:
            raise IntegrityError(f"ref {name}", expected=commit, found=held)
        self._put({commit: ("commit", data)})
        move_ref(self.path, name, commit, None)

    def _kept(self) -> dict[str, str]:
        listing = run_git(["for-each-ref", "--format=%(refname) %(objectname)", "refs/strop/"], git_dir=self.path)
        held: dict[str, str] = {}
        for row in listing.decode().splitlines():
            name, _, commit = row.rpartition(" ")
            if name != ANCHOR_REF:
                held[name.removeprefix("refs/strop/")] = objects.commit_tree(commit, self._get(commit, "commit"))
        return held

    def _anchor(self, ledger_hash: str, seal: str, seq: int) -> None:
        data = json.dumps({"hash": ledger_hash, "seal": seal, "seq": seq}, sort_keys=True).encode()
        name = objects.object_id("blob", data)
        self._put({name: ("blob", data)})
        failpoint("anchor-written")
        before = self._last_anchor or read_ref(self.path, ANCHOR_REF)
        if name != before:
            # a move that a power cut takes back is a lag, which the next owner makes up for
            move_ref(self.path, ANCHOR_REF, name, before, durable=False)
        self._last_anchor = name

    def _anchored(self) -> tuple[str, str, int] | None:
        name = read_ref(self.path, ANCHOR_REF)
        if name is None:
            return None
        try:
            found = json.loads(self._get(name, "blob"))
            return str(found["hash"]), str(found["seal"]), int(found["seq"])
        except (ValueError, TypeError, KeyError) as error:
            raise IntegrityError(f"anchor {ANCHOR_REF}", expected="hash, seal and seq", found=repr(error)) from error
