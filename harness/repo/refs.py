"""Loose refs of our own bare repository, moved by compare-and-swap under git's own lock protocol.

`REF.lock` is made exclusively, the old value compared, the new one written, fsynced and renamed into place: what
`git update-ref` does, without a process for each move. Refs that a gc packed are read from `packed-refs`.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from harness.errors import IntegrityError
from harness.repo.objects import is_object_id


class RefMovedError(OSError):
    """A ref is not where the mover thought, or somebody else is moving it."""


def read_ref(repository: Path, ref: str) -> str | None:
    """The object id a ref names, None when there is no such ref."""
    try:
        found = (repository / ref).read_text("ascii", "replace").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        found = _packed(repository, ref)
    if found is not None and not is_object_id(found):
        raise IntegrityError(f"ref {ref}", expected="an object id", found=repr(found[:80]))
    return found


def move_ref(repository: Path, ref: str, new: str, old: str | None, *, durable: bool = True) -> None:
    """Point `ref` at `new` if it is at `old` (None: if it does not exist). Raises RefMovedError otherwise.

    Not `durable`, a power cut soon after may take the move back whole.
    """
    place = repository / ref
    lock = place.with_name(place.name + ".lock")
    made = not place.parent.exists()
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise RefMovedError(f"{ref} is locked by another writer") from None
    try:
        with os.fdopen(handle, "wb") as file:
            _compare(repository, ref, old)
            file.write(new.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        lock.rename(place)
    except BaseException:
        with contextlib.suppress(OSError):
            lock.unlink()
        raise
    if durable:
        fsync_folder(place.parent)
    if made:
        fsync_folder(place.parent.parent)


def _compare(repository: Path, ref: str, old: str | None) -> None:
    found = read_ref(repository, ref)
    if found != old:
        raise RefMovedError(f"{ref} is at {found}, not at {old}")


def fsync_folder(folder: Path) -> None:
    """Make what was made, renamed or removed in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _packed(repository: Path, ref: str) -> str | None:
    try:
        rows = (repository / "packed-refs").read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return None
    for row in rows:
        name, _, packed = row.partition(" ")
        if packed == ref and not row.startswith(("#", "^")):
            return name
    return None
