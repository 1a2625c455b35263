"""Trees as data: what a folder holds, in memory, with nothing executed and nothing followed.

`Entry` is anything a box, an archive or a folder may contain, hostile kinds included; `Tree` is what has
passed the door: regular files only, with clean relative paths.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["file", "dir", "symlink", "hardlink", "fifo", "socket", "device", "unknown"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One name as found, before anyone has judged it. `path` is raw bytes; `links` is st_nlink of a file."""

    path: bytes
    kind: Kind
    mode: int = 0o644
    data: bytes = b""
    links: int = 1


@dataclass(frozen=True, slots=True)
class File:
    """A regular file: its bytes, and whether it is 755 instead of 644."""

    data: bytes
    executable: bool = False


class Tree(Mapping[str, File]):
    """An immutable folder: POSIX-relative path -> File, ordered by path. Equal trees have equal digests."""

    __slots__ = ("_digest", "_files")

    def __init__(self, files: Mapping[str, File] | Iterable[tuple[str, File]] = ()) -> None:
        self._files = dict(sorted(dict(files).items()))
        self._digest: str | None = None

    def __getitem__(self, path: str) -> File:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._files == other._files

    def __repr__(self) -> str:
        return f"Tree({len(self)} files, {self.digest[:12]})"

    @property
    def digest(self) -> str:
        """SHA-256 over (path, mode, content digest) of every file, hex."""
        if self._digest is None:
            whole = hashlib.sha256()
            for path, file in self._files.items():
                content = hashlib.sha256(file.data).hexdigest()
                whole.update(f"{len(path.encode())}:{path}:{int(file.executable)}:{content}\n".encode())
            self._digest = whole.hexdigest()
        return self._digest

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(len(file.data) for file in self._files.values())

    def changed(self, changes: Mapping[str, bytes | None]) -> Tree:
        """A new tree with `changes` laid over it: bytes write a file (keeping its mode), None removes it."""
        files = dict(self._files)
        for path, data in changes.items():
            if data is None:
                files.pop(path, None)
            else:
                files[path] = File(data, executable=path in files and files[path].executable)
        return Tree(files)

    def subtree(self, prefix: str) -> Tree:
        """The files below `prefix/`, with the prefix taken off."""
        head = prefix.rstrip("/") + "/"
        return Tree((path[len(head) :], file) for path, file in self._files.items() if path.startswith(head))

    def without(self, paths: Iterable[str]) -> Tree:
        """This tree less the exact `paths`."""
        gone = set(paths)
        return Tree((path, file) for path, file in self._files.items() if path not in gone)

    def entries(self) -> list[Entry]:
        """The tree as entries, for a box's `put`."""
        return [
            Entry(path.encode(), "file", 0o755 if file.executable else 0o644, file.data)
            for path, file in self._files.items()
        ]
