"""Control groups, where they are ours to use: memory, pids and cpu of one box, held by the kernel.

Ours are a hierarchy's root (a bare machine or a container's own) and a delegated group: one that a plain user owns,
or that is marked so (systemd's "Control Group APIs and Delegation"). A group that somebody else manages is left
alone, and the worker's watchdog holds the limit instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.box import host
from harness.limits import Limits

_PERIOD_US = 100_000
_PREFIX = "strop-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{16}}-({host.TOKEN.pattern})-[0-9a-f]{{8}}")
_OWN_TASKS = 4  # bubblewrap's monitor, its helper, the worker


@dataclass(frozen=True, slots=True)
class Seat:
    """Where groups for one controller may be made, and which version of the interface it speaks."""

    folder: Path
    version: int


@cache
def seats() -> Mapping[str, Seat]:
    """{controller: seat} for memory, pids and cpu, without those we may not use."""
    found: dict[str, Seat] = {}
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for _, point, kind, options, *_ in mounts:
            if kind == "cgroup" and names and set(names.split(",")) <= set(options.split(",")):
                folder = Path(point + path.rstrip("/"))
                found.update({name: Seat(folder, 1) for name in names.split(",") if _ours(folder, path)})
            elif kind == "cgroup2" and not names:
                folder = Path(point + path.rstrip("/"))
                found.update({name: Seat(folder, 2) for name in _delegated(folder, path) if name not in found})
    return {name: seat for name, seat in found.items() if name in {"memory", "pids", "cpu"}}


def _ours(folder: Path, path: str) -> bool:
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_RDONLY:
        return False
    if path == "/" or (os.geteuid() != 0 and folder.stat().st_uid == os.geteuid()):
        return True
    for mark in ("trusted.delegate", "user.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(folder, mark) == b"1":
                return True
    return False


def _delegated(folder: Path, path: str) -> set[str]:
    """Controllers of the unified hierarchy that a group made in `folder` would have."""
    if not _ours(folder, path):
        return set()
    try:
        return set((folder / "cgroup.subtree_control").read_text().split())
    except OSError:
        return set()


class Cgroup:
    """The groups of one box. `held` names the limits they hold."""

    def __init__(self, owner: str, limits: Limits) -> None:
        self.held: frozenset[str] = frozenset()
        self._folders: dict[str, Path] = {}
        name = f"{_mark(owner)}{host.token()}-{secrets.token_hex(4)}"
        for controller, seat in seats().items():
            folder = seat.folder / name
            try:
                folder.mkdir(exist_ok=True)
                self._folders[controller] = folder
                for file, value in _settings(controller, seat.version, limits):
                    (folder / file).write_text(value)
            except OSError:
                continue
            self.held |= {controller}

    def join(self, pids: Iterable[int]) -> None:
        """Move processes in. Called before any of the candidate's code runs. A move costs milliseconds, a look not."""
        for pid in pids:
            for folder in set(self._folders.values()):
                if not _holds(folder, pid):
                    with contextlib.suppress(ProcessLookupError):
                        (folder / "cgroup.procs").write_text(str(pid))

    def oom_kills(self) -> int:
        """How many processes of the box the kernel killed for memory so far."""
        folder = self._folders.get("memory")
        if folder is None or "memory" not in self.held:
            return 0
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (folder / name).read_text().splitlines():
                    key, _, count = line.partition(" ")
                    if key == "oom_kill":
                        return int(count)
        return 0

    def remove(self) -> None:
        """Take the groups away; the box is dead, so this waits only for the kernel to notice."""
        for folder in set(self._folders.values()):
            _remove(folder)
        self._folders.clear()


def _holds(folder: Path, pid: int) -> bool:
    try:
        return str(pid) in (folder / "cgroup.procs").read_text().split()
    except OSError:
        return False


def _settings(controller: str, version: int, limits: Limits) -> list[tuple[str, str]]:
    memory = str(limits.memory_mb << 20)
    quota = str(max(1000, int(limits.cpus * _PERIOD_US)))
    if controller == "pids":
        return [("pids.max", str(limits.pids + _OWN_TASKS))]
    if controller == "memory" and version == 1:
        return [("memory.limit_in_bytes", memory)]
    if controller == "memory":
        return [("memory.max", memory), ("memory.swap.max", "0")]
    if version == 1:
        return [("cpu.cfs_period_us", str(_PERIOD_US)), ("cpu.cfs_quota_us", quota)]
    return [("cpu.max", f"{quota} {_PERIOD_US}")]


def _mark(owner: str) -> str:
    """How groups of `owner` begin. A digest, for a box can read its group's name in /proc/self/cgroup."""
    return f"{_PREFIX}{hashlib.sha256(owner.encode()).hexdigest()[:16]}-"


def leftovers(owner: str) -> list[Path]:
    """Groups of boxes of `owner`."""
    folders = {seat.folder for seat in seats().values()}
    return [found for folder in folders for found in folder.glob(_mark(owner) + "*") if found.is_dir()]


def _remove(folder: Path, patience_s: float = 2.0) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)
        else:
            return


def remove(folder: Path) -> bool:
    """Kill what is in a leftover group and take it away; whether it is gone."""
    with contextlib.suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), 9)
    _remove(folder)
    return not folder.exists()


def marked() -> Iterator[tuple[Path, str]]:
    """(group, token of the process that made it) of every group of a box."""
    for folder in {seat.folder for seat in seats().values()}:
        for group in folder.glob(f"{_PREFIX}*"):
            match = _NAME.fullmatch(group.name)
            if match:
                yield group, match[1]
