"""Reading the user's own folder into entries: the root of a run.

Through folder descriptors, `O_NOFOLLOW` throughout, nothing followed and nothing executed. In a git repository the
tracked files count, elsewhere whatever the folder's ignore rules leave. Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from pathspec import GitIgnoreSpec

from harness.errors import InputError
from harness.repo.caps import DEFAULT_CAPS, Caps
from harness.repo.git import GitError, run_git
from harness.tree import Entry, Kind
from harness.untrusted import line

ALWAYS_IGNORED = (".git", ".hg/", ".svn/", ".strop/", "__pycache__/", ".venv/", ".DS_Store")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_IGNORE_BYTES = 2**20
_MEND = "leave it out with .gitignore (or `git rm --cached`)"


def scan_folder(folder: Path, *, caps: Caps = DEFAULT_CAPS, ignore: Iterable[str] = ()) -> list[Entry]:
    """Everything in the folder that counts, links and devices named but never followed or opened.

    `ignore` adds patterns in .gitignore's syntax. Raises InputError for a folder past the caps or unreadable.
    """
    try:
        top = folder.resolve(strict=True)
        tracked = tracked_files(top)
        rules = _Tracked(tracked, ignore) if tracked else _Untracked(ignore)
        handle = os.open(top, _FOLDER)
        try:
            scan = _Scan(top, caps, rules)
            rules.enter(b"", handle)
            scan.walk(handle, b"", 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(error.filename or folder)) from error
    return scan.entries


def tracked_files(folder: Path) -> dict[bytes, bool]:
    """Paths below `folder` that git tracks -> whether it is a submodule; empty outside a repository."""
    try:
        listing = run_git(["ls-files", "--stage", "-z"], cwd=folder)
    except GitError:
        return {}
    found: dict[bytes, bool] = {}
    for row in listing.split(b"\0"):
        about, _, path = row.partition(b"\t")
        if path:
            found[path] = about.startswith(b"160000")
    return found


class _Tracked:
    """Only what git tracks, and of that nothing the caller ignores."""

    def __init__(self, files: dict[bytes, bool], ignore: Iterable[str]) -> None:
        self._spec = GitIgnoreSpec.from_lines(ignore)
        self._files = files
        self._folders = {path[:at] for path in files for at, byte in enumerate(path) if byte == ord("/")}

    def enter(self, path: bytes, handle: int) -> bool:
        return not path or path in self._folders

    def take(self, path: bytes) -> bool:
        return path in self._files and not self._spec.match_file(os.fsdecode(path))

    def is_submodule(self, path: bytes) -> bool:
        return self._files.get(path, False)


class _Untracked:
    """Everything but what .gitignore files, on the way down, or the caller rule out."""

    def __init__(self, ignore: Iterable[str]) -> None:
        self._always = GitIgnoreSpec.from_lines([*ALWAYS_IGNORED, *ignore])
        self._specs: dict[bytes, GitIgnoreSpec] = {}

    def enter(self, path: bytes, handle: int) -> bool:
        if path and self._ignored(path, "/"):
            return False
        lines = _ignore_lines(handle)
        if lines:
            self._specs[path] = GitIgnoreSpec.from_lines(lines)
        return True

    def is_submodule(self, path: bytes) -> bool:
        return False

    def take(self, path: bytes) -> bool:
        return not self._ignored(path, "")

    def _ignored(self, path: bytes, end: str) -> bool:
        if self._always.match_file(os.fsdecode(path) + end):
            return True
        above = path
        while above:
            # the nearest .gitignore that says anything has the last word
            above = above.rpartition(b"/")[0]
            spec = self._specs.get(above)
            if spec is not None:
                below = path[len(above) + 1 :] if above else path
                said = spec.check_file(os.fsdecode(below) + end).include
                if said is not None:
                    return said
        return False


class _Scan:
    """One walk over a folder, up to its caps."""

    def __init__(self, top: Path, caps: Caps, rules: _Tracked | _Untracked) -> None:
        self.entries: list[Entry] = []
        self._top = top
        self._caps = caps
        self._rules = rules
        self._bytes = 0

    def walk(self, handle: int, prefix: bytes, depth: int) -> None:
        """Take in one open folder; `prefix` is its path with a slash, empty at the top."""
        for name in sorted(os.listdir(handle)):
            path = prefix + os.fsencode(name)
            about = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if not stat.S_ISDIR(about.st_mode):
                if self._rules.take(path):
                    self._add(self._entry(handle, name, path, about))
            elif self._rules.is_submodule(path):
                self._add(Entry(path, "unknown"))
            else:
                self._descend(handle, name, path, depth)

    def _descend(self, handle: int, name: str, path: bytes, depth: int) -> None:
        below = os.open(name, _FOLDER, dir_fd=handle)
        try:
            if not self._rules.enter(path, below):
                return
            if depth >= self._caps.depth:
                raise self._past(path, f"nested deeper than {self._caps.depth}")
            self.walk(below, path + b"/", depth + 1)
        finally:
            os.close(below)

    def _entry(self, handle: int, name: str, path: bytes, about: os.stat_result) -> Entry:
        if not stat.S_ISREG(about.st_mode):
            return Entry(path, _kind(about.st_mode), stat.S_IMODE(about.st_mode))
        opened = os.open(name, _FILE, dir_fd=handle)
        try:
            about = os.fstat(opened)
            if not stat.S_ISREG(about.st_mode):
                return Entry(path, _kind(about.st_mode), stat.S_IMODE(about.st_mode))
            data = _read(opened, self._caps.file_bytes + 1)
        finally:
            os.close(opened)
        if len(data) > self._caps.file_bytes:
            raise self._past(path, f"larger than {_size(self._caps.file_bytes)}")
        return Entry(path, "file", stat.S_IMODE(about.st_mode), data, about.st_nlink)

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._bytes += len(entry.data)
        if len(self.entries) > self._caps.files:
            raise self._past(b"", f"more than {self._caps.files} files")
        if self._bytes > self._caps.total_bytes:
            raise self._past(b"", f"more than {_size(self._caps.total_bytes)} in all")

    def _past(self, path: bytes, what: str) -> InputError:
        return InputError(what, file=f"{self._top}/{line(path)}".rstrip("/"), mend=_MEND)


def _size(count: int) -> str:
    return (
        f"{count / 2**20:.4g} MB"
        if count >= 2**20
        else f"{count / 2**10:.4g} kB"
        if count >= 2**10
        else f"{count} bytes"
    )


def _kind(mode: int) -> Kind:
    if stat.S_ISLNK(mode):
        return "symlink"
    if stat.S_ISFIFO(mode):
        return "fifo"
    if stat.S_ISSOCK(mode):
        return "socket"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "device"
    return "unknown"


def _read(handle: int, limit: int) -> bytes:
    chunks: list[bytes] = []
    left = limit
    while left > 0:
        chunk = os.read(handle, min(left, 2**20))
        if not chunk:
            break
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _ignore_lines(handle: int) -> list[str]:
    try:
        opened = os.open(".gitignore", _FILE, dir_fd=handle)
    except OSError:
        return []
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return []
        return os.fsdecode(_read(opened, _IGNORE_BYTES)).splitlines()
    finally:
        os.close(opened)
