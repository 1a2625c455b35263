"""The run folder's lock: one owner at a time, and everybody else is told who it is.

A flock, so the kernel frees it with its owner, `kill -9` included. Not reentrant.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.errors import RunBusyError, StorageError
from harness.untrusted import line

FILE_NAME = "lock"

_TRIES = 20
_PAUSE_S = 0.01
_READ_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a run: `started` is the process's start in clock ticks after boot, against reused pids."""

    pid: int
    host: str
    boot: str
    started: int
    command: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.command}) since {self.since}"


class RunLock:
    """Owns a run folder from `__enter__` to `__exit__`. Raises RunBusyError, which names the holder, StorageError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / FILE_NAME
        self._handle: int | None = None

    def __enter__(self) -> Self:
        if self._handle is not None:
            raise RunBusyError(self.folder, holder="this very lock")
        try:
            self._handle = self._acquire()
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, json.dumps(asdict(_myself())).encode(), 0)
        except OSError as error:
            self._let_go()
            raise StorageError(self.folder, reason=error.strerror or str(error)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            # unlinked while held: whoever waits for the old file sees that it is gone and makes a new one
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._let_go()

    def _acquire(self) -> int:
        for attempt in range(_TRIES):
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(handle).st_nlink > 0:
                    return handle
            except BlockingIOError:
                found = _recorded(handle)
                # a reader that only looks holds it for an instant, and its file names nobody who lives
                if attempt == _TRIES - 1 or (found is not None and _lives(found)):
                    os.close(handle)
                    raise RunBusyError(self.folder, holder=str(found or "another process")) from None
                time.sleep(_PAUSE_S)
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
        raise RunBusyError(self.folder, holder="processes that come and go")

    def _let_go(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def holder(folder: Path) -> Holder | None:
    """The live owner of a run folder, None when nobody owns it. Never disturbs the owner."""
    try:
        handle = os.open(folder / FILE_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _recorded(handle) or Holder(0, "an unknown host", "", 0, "unknown command", "an unknown time")
    finally:
        os.close(handle)
    return None


def _recorded(handle: int) -> Holder | None:
    try:
        found: Any = json.loads(os.pread(handle, _READ_BYTES, 0))
        return Holder(
            pid=int(found["pid"]),
            host=line(str(found["host"])),
            boot=str(found["boot"]),
            started=int(found["started"]),
            command=line(str(found["command"])),
            since=line(str(found["since"])),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lives(found: Holder) -> bool:
    """Whether the process is there; taken for alive when it cannot be known from here."""
    if found.host != socket.gethostname() or found.boot != _boot():
        return True
    started = _started(found.pid)
    return started is not None and found.started in (0, started)


def _myself() -> Holder:
    return Holder(
        pid=os.getpid(),
        host=socket.gethostname(),
        boot=_boot(),
        started=_started(os.getpid()) or 0,
        command=line(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]])),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _started(pid: int) -> int | None:
    """Clock ticks after boot at which a process began (field 22 of /proc/PID/stat); 0 without /proc."""
    if not Path("/proc/self/stat").exists():
        return 0 if _signalable(pid) else None
    try:
        about = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(about.rpartition(")")[2].split()[19])


def _signalable(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
