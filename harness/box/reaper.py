"""Finds and removes what boxes left on this machine: processes, temp folders, control groups.

Everything of a box carries its owner's run id and the token of the process that opened it. `reap` takes what dead
owners left (one that lives must not be named), `sweep` what any dead process left, whoever its owner was.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.box import cgroup, host
from harness.box.bubblewrap import LABEL

FOLDER_PREFIX = "strop-box-"
ARGUMENT_PREFIX = "strop-box:"
HOST_PREFIX = "strop-host:"
LIFTED = ".lifted-"
_TOKEN = host.TOKEN.pattern.encode()
_MARKED = re.compile(rb"(?:^|\0)(?:%b[=\0]|%b)(%b)(?:\0|$)" % (host.LABEL.encode(), HOST_PREFIX.encode(), _TOKEN))
_FOLDER = re.compile(rf"{FOLDER_PREFIX}.+-({host.TOKEN.pattern})-[0-9a-f]{{8}}")


def reap(owners: Sequence[str]) -> int:
    """Kill and remove everything labelled with one of `owners`, and what dead processes left; how many things went.
    Blocks."""
    gone = 0
    for pid in labelled(owners):
        gone += _kill(pid)
    for folder in folders(owners):
        gone += remove_tree(folder)
    for owner in owners:
        for group in cgroup.leftovers(owner):
            gone += cgroup.remove(group)
    return gone + sweep()


def sweep() -> int:
    """Kill and remove everything whose opening process is dead, and nothing of a living one; how many things went.

    Quick (one look through /proc), so that every command can begin with it. Blocks.
    """
    if sys.platform != "linux":
        return 0
    gone, known = 0, _Living()
    # Twice, for what a dying parent started meanwhile; the second look is skipped when the first found nothing.
    for _ in range(8):
        found = sum(_kill(pid) for pid, token in marked() if known.dead(token))
        gone += found
        if not found:
            break
    for folder in _temp_folders():
        match = _FOLDER.fullmatch(folder.name)
        if match and known.dead(match[1]):
            gone += remove_tree(folder)
    for group, token in cgroup.marked():
        if known.dead(token):
            gone += cgroup.remove(group)
    return gone


class _Living:
    """`host.dead`, which looks at the processes of the machine once and only when there is something to judge."""

    def __init__(self) -> None:
        self._alive: frozenset[str] | None = None

    def dead(self, token: str) -> bool:
        if token == host.token():
            return False
        if self._alive is None:
            self._alive = host.living()
        return host.dead(token, self._alive)


def marked() -> Iterator[tuple[int, str]]:
    """(pid, token) of every process of a box, by command line or environment."""
    for pid, content in _processes():
        match = _MARKED.search(content)
        if match:
            yield pid, match[1].decode()


def labelled(owners: Sequence[str]) -> Iterator[int]:
    """Pids whose command line or environment carries the label of one of `owners`."""
    marks = [f"{LABEL}\0{owner}\0".encode() for owner in owners]
    marks += [f"{ARGUMENT_PREFIX}{owner}\0".encode() for owner in owners]
    marks += [f"{LABEL}={owner}\0".encode() for owner in owners]
    for pid, content in _processes():
        if any(mark in content for mark in marks):
            yield pid


def _processes() -> Iterator[tuple[int, bytes]]:
    """(pid, command line and environment) of every other process that may be ours."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - quick, and nothing stays open
        if not name.isdigit() or int(name) == os.getpid():
            continue
        content = b""
        for file in ("cmdline", "environ"):
            with contextlib.suppress(OSError), open(f"/proc/{name}/{file}", "rb") as source:  # noqa: PTH123 - quick
                content += source.read() + b"\0"
        yield int(name), content


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def folders(owners: Sequence[str]) -> list[Path]:
    """Temp folders of process boxes of `owners`."""
    names = "|".join(re.escape(owner) for owner in owners)
    pattern = re.compile(rf"{re.escape(FOLDER_PREFIX)}(?:{names})-(?:{host.TOKEN.pattern})-[0-9a-f]{{8}}")
    return [path for path in _temp_folders() if owners and pattern.fullmatch(path.name)]


def _temp_folders() -> list[Path]:
    try:
        return list(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"))
    except OSError:
        return []


def remove_tree(folder: Path) -> bool:
    """Remove a folder that hostile code filled: links are not followed, modes and depth do not stop it, nor another
    process that removes it at the same time. Whether it is gone now.

    Every folder is lifted to the top before it is emptied, so depth costs nothing and no path grows long.
    """
    for _ in range(100):
        try:
            return _remove_tree(folder)
        except FileNotFoundError:  # taken from under us: look again
            continue
        except PermissionError:
            return False
    return not folder.exists()


def _remove_tree(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return True
    serial = 0
    folder.chmod(0o700)
    while nested := _nested(folder):
        for entry in nested:
            Path(entry.path).chmod(0o700)
            for inner in _nested(entry.path):
                serial += 1
                Path(inner.path).chmod(0o700)
                Path(inner.path).rename(folder / f"{LIFTED}{secrets.token_hex(8)}-{serial}")
            Path(entry.path).rmdir()
    folder.rmdir()
    return True


def _nested(folder: Path | str) -> list[os.DirEntry[str]]:
    """The real folders in a folder; anything else in it is removed."""
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            Path(entry.path).unlink(missing_ok=True)
    return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]


if __name__ == "__main__":
    print(reap(sys.argv[1:]))
