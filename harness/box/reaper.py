"""Finds and removes what the boxes of dead owners left on this machine: processes, temp folders, control groups.

Everything of a box carries its owner's run id. An owner that lives must not be named here.
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

from harness.box import cgroup
from harness.box.bubblewrap import LABEL

FOLDER_PREFIX = "strop-box-"
ARGUMENT_PREFIX = "strop-box:"
LIFTED = ".lifted-"


def reap(owners: Sequence[str]) -> int:
    """Kill and remove everything labelled with one of `owners`; how many things went. Blocks."""
    gone = 0
    for pid in labelled(owners):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            gone += 1
    for folder in folders(owners):
        remove_tree(folder)
        gone += not folder.exists()
    for owner in owners:
        for group in cgroup.leftovers(owner):
            cgroup.remove(group)
            gone += not group.exists()
    cgroup.sweep()
    return gone


def labelled(owners: Sequence[str]) -> Iterator[int]:
    """Pids whose command line or environment carries the label of one of `owners`."""
    marks = [f"{LABEL}\0{owner}\0".encode() for owner in owners]
    marks += [f"{ARGUMENT_PREFIX}{owner}\0".encode() for owner in owners]
    inherited = [f"{LABEL}={owner}\0".encode() for owner in owners]
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        if _holds(process / "cmdline", marks) or _holds(process / "environ", inherited):
            yield int(process.name)


def _holds(file: Path, marks: Sequence[bytes]) -> bool:
    try:
        content = file.read_bytes()
    except OSError:
        return False
    return any(mark in content for mark in marks)


def folders(owners: Sequence[str]) -> list[Path]:
    """Temp folders of process boxes of `owners`."""
    names = "|".join(re.escape(owner) for owner in owners)
    pattern = re.compile(rf"{re.escape(FOLDER_PREFIX)}(?:{names})-[0-9a-f]{{8}}")
    return [path for path in Path(tempfile.gettempdir()).iterdir() if owners and pattern.fullmatch(path.name)]


def remove_tree(folder: Path) -> None:
    """Remove a folder that hostile code filled: links are not followed, modes and depth do not stop it.

    Every folder is lifted to the top before it is emptied, so depth costs nothing and no path grows long.
    """
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    serial = 0
    folder.chmod(0o700)
    while nested := [entry for entry in os.scandir(folder) if _unlinked(entry)]:
        for entry in nested:
            Path(entry.path).chmod(0o700)
            for inner in [inner for inner in os.scandir(entry.path) if _unlinked(inner)]:
                serial += 1
                Path(inner.path).chmod(0o700)
                Path(inner.path).rename(folder / f"{LIFTED}{secrets.token_hex(8)}-{serial}")
            Path(entry.path).rmdir()
    folder.rmdir()


def _unlinked(entry: os.DirEntry[str]) -> bool:
    """Whether it is a real folder; anything else is removed."""
    if entry.is_dir(follow_symlinks=False):
        return True
    Path(entry.path).unlink()
    return False


if __name__ == "__main__":
    print(reap(sys.argv[1:]))
