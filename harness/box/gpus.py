"""NVIDIA devices for boxes: each is one rollout's at a time, over all runs of this machine.

A lease is a lock on a file, so it ends with the process that holds it, however that ends. A remote engine's devices are
leased on the machine that asks.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio

from harness.errors import BoxUnavailableError

ALL = "all"
DEV = Path("/dev")
_CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_LOOK_S = 0.05


@asynccontextmanager
async def leased(wanted: Sequence[str]) -> AsyncGenerator[tuple[str, ...]]:
    """One of `wanted` (all of them for ("all",)), for as long as the context is open; waits until one is free."""
    if not wanted:
        yield ()
        return
    with ExitStack() as held:
        while (taken := _take(wanted, held)) is None:  # noqa: ASYNC110 - another process may hold it
            await anyio.sleep(_LOOK_S)
        yield taken


def _take(wanted: Sequence[str], held: ExitStack) -> tuple[str, ...] | None:
    """A lease "all" excludes every other; one device excludes the same device and "all"."""
    with ExitStack() as trying:
        whole = ALL in wanted
        if not _locked(ALL, trying, shared=not whole):
            return None
        for one in () if whole else wanted:
            if _locked(one, trying, shared=False):
                held.push(trying.pop_all())
                return (one,)
        if not whole:
            return None
        held.push(trying.pop_all())
        return (ALL,)


def _locked(name: str, stack: ExitStack, *, shared: bool) -> bool:
    file = _opened(re.sub(r"[^\w-]", "_", name))
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    stack.callback(os.close, file)
    return True


def _opened(name: str) -> int:
    """The lock file, which every user of this machine may lock. Raises BoxUnavailableError."""
    path = Path(tempfile.gettempdir()) / "strop-gpus" / name
    try:
        with suppress(FileExistsError):
            path.parent.mkdir()
            path.parent.chmod(0o1777)
        with suppress(FileExistsError):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            os.fchmod(file, 0o666)
            return file
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)  # without O_CREAT: it may be another user's
    except OSError as error:
        raise BoxUnavailableError("gpus", reason=f"no lease: {error}", mend=f"let everybody write {path}") from None


def nodes(devices: Sequence[str]) -> list[str]:
    """The device nodes that an embedded box of `devices` sees. Raises BoxUnavailableError for one that is not here."""
    if not devices:
        return []
    numbers = {path.name.removeprefix("nvidia"): path for path in DEV.glob("nvidia[0-9]*")}
    chosen = list(numbers.values()) if ALL in devices else [numbers[one] for one in devices if one in numbers]
    if not chosen or (ALL not in devices and len(chosen) < len(devices)):
        here = ", ".join(sorted(numbers)) or "none"
        raise BoxUnavailableError(
            f"gpu {' '.join(devices)}",
            reason=f"an embedded box knows devices by number, and this machine has {here}",
            mend="name one of them under box.gpus, or use box.backend = 'docker' for UUIDs",
        )
    control = [DEV / name for name in _CONTROL if (DEV / name).exists()]
    return [str(path) for path in (*sorted(chosen), *control)]
