"""The self-check: every promise of a box, tried from inside one. `strop doctor` prints it.

A limit that is silently not applied is worse than none, so each is proved by running into it.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from harness.box import abuses, probes, syscalls
from harness.box.base import FOLDERS, TMP, Box, Boxes, BoxSpec, Command
from harness.box.pool import Pool
from harness.errors import BoxError, ExecTimeoutError, LimitError
from harness.limits import Limits
from harness.records import Completed
from harness.tree import Entry
from harness.untrusted import line

_OWNER = "selfcheck"
_LIMITS = Limits(memory_mb=192, cpus=1.0, pids=24, disk_mb=24, open_files=64, output_kb=16)
_SHM = "/dev/shm"  # noqa: S108 - a path inside the box
_PLACES = (*FOLDERS, TMP, _SHM)
_DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True)
class Probe:
    """One promise. `held` is None where it cannot be tried or is not promised here; `detail` is one line of text."""

    name: str
    held: bool | None
    detail: str


Check = Callable[[Box], Awaitable[tuple[bool | None, str]]]
Heard = Callable[[str, int, int], None]


async def selfcheck(boxes: Boxes, *, heard: Heard | None = None) -> list[Probe]:
    """Try every promise of `boxes` on this machine; five to ten seconds. Raises BoxUnavailableError.

    `heard` is told the name of each probe that ended, how many have, and of how many. A back end that isolates nothing
    is only asked what it does promise: the rest would be done to the host.
    """
    await boxes.prepare()
    checks = {name: check for name, check in _CHECKS.items() if boxes.isolated or name in _WITHOUT_ISOLATION}
    within: list[Probe] = []
    apart: list[Probe] = []
    total = len(checks) + (len(probes.INSIDE) if boxes.isolated else 0)

    def add(found: list[Probe], probe: Probe) -> None:
        found.append(probe)
        if heard is not None:
            heard(probe.name, len(within) + len(apart), total)

    try:
        async with Pool(boxes) as pool, anyio.create_task_group() as group:  # a box opens while another is tried
            if boxes.isolated:
                group.start_soon(_within, boxes, partial(add, within))
            for name, check in checks.items():
                probe = await _apart(pool, name, check)
                add(apart, _promised(probe, boxes.enforcement().get(name, "")))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # what ended one of the two ended the other
    return [*within, *apart] if boxes.isolated else [Probe("isolation", False, "no isolation"), *apart]


def _promised(probe: Probe, how: str) -> Probe:
    """What nothing holds is not held because the machine was too busy, or too small, to pass the limit."""
    return replace(probe, held=None) if probe.held and how.startswith("not held") else probe


async def _within(boxes: Boxes, add: Callable[[Probe], None]) -> None:
    with ExitStack() as stack:
        canaries = [
            stack.enter_context(tempfile.NamedTemporaryFile(prefix=".strop-canary-", dir=folder)).name
            for folder in dict.fromkeys((tempfile.gettempdir(), "/var/tmp", str(Path.home())))  # noqa: S108
            if os.access(folder, os.W_OK)
        ]
        door = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        echo = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        echo.bind(("127.0.0.1", 0))
        hidden = stack.enter_context(socket.socket(socket.AF_UNIX))
        name = f"strop-canary-{secrets.token_hex(4)}"
        hidden.bind(f"\0{name}" if sys.platform == "linux" else f"{tempfile.mkdtemp()}/{name}")
        hidden.listen()
        stack.enter_context(_echoing(echo))
        arguments: dict[str, tuple[str, ...]] = {
            "": (),
            "canary": tuple(canaries),
            "port": (str(door.getsockname()[1]),),
            "udp": (str(echo.getsockname()[1]),),
            "abstract": (name,),
            "pid": (str(os.getpid()), str(os.getppid())),
            "numbers": (json.dumps(_numbers()),),
            "newest": (json.dumps({name: pair[_column()] for name, pair in syscalls.NEWEST.items()}),),
            "slowing": (json.dumps({name: pair[0][_column()] for name, pair in syscalls.SLOWING.items()}),),
            "lending": (json.dumps({name: pair[_column()] for name, pair in _LENDING.items()}),),
            "open_files": (str(_LIMITS.open_files),),
            "disk": (str(_LIMITS.disk_mb), *_PLACES),
            "pids": (str(_LIMITS.pids),),
        }
        async with boxes.open(BoxSpec(owner=_OWNER, limits=_LIMITS)) as box:
            for name, (source, kind) in probes.INSIDE.items():
                add(await _inside(box, name, source, arguments[kind]))


@contextmanager
def _echoing(echo: socket.socket) -> Generator[None]:
    """Answer every datagram while the block runs."""

    def answer() -> None:
        while True:
            data, sender = echo.recvfrom(100)
            if data == b"end":
                return
            echo.sendto(data, sender)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield
    finally:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", echo.getsockname())
        thread.join(5)


async def _inside(box: Box, name: str, source: str, arguments: tuple[str, ...]) -> Probe:
    try:
        done = await _python(box, source, *arguments)
    except BoxError as error:
        return Probe(name, None, line(error.message))
    held = {0: True, 1: False}.get(done.exit_code)
    return Probe(name, held, line(done.stdout.strip() or done.stderr.strip()[-200:]))


async def _apart(boxes: Boxes, name: str, check: Check) -> Probe:
    """A check that may cost the box its life gets one of its own."""
    try:
        async with boxes.open(BoxSpec(owner=_OWNER, limits=_LIMITS)) as box:
            held, detail = await check(box)
    except BoxError as error:
        return Probe(name, None, line(error.message))
    return Probe(name, held, line(detail))


async def _python(box: Box, source: str, *arguments: str, deadline_s: float = _DEADLINE_S) -> Completed:
    return await box.exec(Command(("python", "-c", source, *arguments), deadline_s=deadline_s))


async def _alone(box: Box) -> bool:
    """Whether nothing but the worker and the asking program runs in the box."""
    return (await _python(box, abuses.COUNT)).stdout.strip() == b"2"


def _memory(way: str) -> Check:
    async def check(box: Box) -> tuple[bool | None, str]:
        try:
            done = await _python(box, abuses.HOLD, way, str(_LIMITS.memory_mb))
        except LimitError as error:
            return error.limit == "memory", error.message
        return b"held it all" not in done.stdout, f"ended with {done.exit_code} {done.stdout!r}"

    return check


async def _pipes(box: Box) -> tuple[bool | None, str]:
    """The tasks of the box may end before its memory does: a pipe holds little."""
    try:
        done = await _python(box, abuses.PIPES, str(_LIMITS.memory_mb))
    except LimitError as error:
        return error.limit == "memory", error.message
    said = done.stdout.split()
    if done.exit_code or not said:
        return None, f"ended with {done.exit_code}"
    held = int(said[-1])
    return held <= _LIMITS.memory_mb, f"{held} MB, with every file and process that the box may have"


async def _bomb(box: Box) -> tuple[bool | None, str]:
    started = time.monotonic()
    try:
        await _python(box, abuses.BOMB, deadline_s=1.0)
    except (ExecTimeoutError, LimitError) as error:
        spent = time.monotonic() - started
        return await _alone(box) and spent < 4, f"{error.message}, in {spent:.1f} s, and the box goes on"
    return False, "it ended by itself"


async def _names(box: Box) -> tuple[bool | None, str]:
    source = "import os\nfor n in range(10**9): os.close(os.open(f'/tmp/{n}', os.O_CREAT))"
    try:
        await _python(box, source)
    except LimitError as error:
        return error.limit == "disk", error.message
    except ExecTimeoutError:
        return False, "empty files without end"
    return True, "refused by the file system"


async def _daemon(box: Box) -> tuple[bool | None, str]:
    started = time.monotonic()
    await _python(box, abuses.DAEMON, "0")
    spent = time.monotonic() - started
    return spent < 5 and await _alone(box), f"a daemon that held the pipe was gone after {spent:.2f} s"


async def _deadline(box: Box) -> tuple[bool | None, str]:
    try:
        await _python(box, abuses.DAEMON, "30", deadline_s=0.3)
    except ExecTimeoutError as error:
        return await _alone(box), f"{error.message}, with its daemon"
    return False, "it outlived its deadline"


async def _flood(box: Box) -> tuple[bool | None, str]:
    try:
        await _python(box, abuses.FLOOD)
    except LimitError as error:
        kept = len(error.partial.stdout)
        return error.limit == "output" and kept <= _LIMITS.output_kb * 1024, f"{error.message}, {kept} bytes kept"
    return False, "it was never stopped"


async def _signals(box: Box) -> tuple[bool | None, str]:
    await _python(box, abuses.SIGNALS)
    return await _alone(box), "64 signals at PID 1 and the box goes on"


async def _reset(box: Box) -> tuple[bool | None, str]:
    await _python(box, abuses.LEAVE, *_PLACES)
    await box.reset()
    left = [place for place in (*FOLDERS, TMP) if await box.get(place, max_bytes=1 << 20)]
    return not left, f"left behind: {left or 'nothing'}"


async def _reset_shm(box: Box) -> tuple[bool | None, str]:
    await _python(box, abuses.LEAVE, _SHM)
    await box.reset()
    done = await _python(box, "import os; print(os.listdir('/dev/shm'))")
    return done.stdout.strip() == b"[]", f"left behind: {done.stdout.decode().strip()}"


async def _reset_processes(box: Box) -> tuple[bool | None, str]:
    await _python(box, abuses.DAEMON, "0")
    await box.reset()
    return await _alone(box), "nothing runs but the worker"


async def _reset_environment(box: Box) -> tuple[bool | None, str]:
    tell = "import os, resource; print(sorted(os.environ.items()), os.getcwd(), os.umask(0), resource.getrlimit(7))"
    before = (await _python(box, tell)).stdout
    change = "import os, resource; os.environ['X'] = '1'; os.umask(0); os.chdir('/tmp'); resource.setrlimit(7, (9, 9))"
    await _python(box, change)
    await box.reset()
    after = (await _python(box, tell)).stdout
    return before == after and bool(before), "variables, folder, mask and limits are as they were"


async def _after_memory(box: Box) -> tuple[bool | None, str]:
    """A limit that was hit must not be hit again by the next, small command."""
    try:
        await _python(box, abuses.HOLD, "one", str(_LIMITS.memory_mb))
    except LimitError:
        await box.reset()
        done = await _python(box, "x = bytes(32 << 20); print(len(x))")
        return done.stdout.strip() == b"33554432", "the next command has its whole memory"
    return None, "the limit was not reported"


async def _wall(box: Box) -> tuple[bool | None, str]:
    started = time.monotonic()
    try:
        await _python(box, "while True: pass", deadline_s=0.5)
    except ExecTimeoutError as error:
        return time.monotonic() - started < 5, error.message
    return False, "it ended by itself"


async def _links(box: Box) -> tuple[bool | None, str]:
    await _python(box, "import os; os.symlink('/tmp/target', '/work/f'); os.symlink('/tmp', '/work/d')")
    await box.put([Entry(b"f", "file", data=b"x"), Entry(b"d/target", "file", data=b"x")], "/work")
    followed = await box.get(TMP, max_bytes=1 << 20)
    await _python(box, "import os; os.symlink('/usr', '/out/l'); os.mkfifo('/out/p')")
    kinds = {entry.path: entry.kind for entry in await box.get("/out", max_bytes=1 << 20)}
    named = kinds == {b"l": "symlink", b"p": "fifo"}
    return not followed and named, f"followed in: {bool(followed)}, named on the way out: {named}"


async def _cpu(box: Box) -> tuple[bool | None, str]:
    done = await _python(box, abuses.BURN)
    used = done.cpu_s / done.wall_s
    detail = f"8 busy processes used {used:.2f} cpus at a limit of {_LIMITS.cpus:g}"
    return (True if used < _LIMITS.cpus * 1.3 else None), detail


_CHECKS: Mapping[str, Check] = {
    "memory, one process": _memory("one"),
    "memory, many processes": _memory("many"),
    "memory, unmapped pages": _memory("hidden"),
    "memory, page tables": _memory("tables"),
    "memory, sockets": _memory("sockets"),
    "memory, pipes": _pipes,
    "fork bomb": _bomb,
    "file names": _names,
    "daemon that holds the pipe": _daemon,
    "daemon past a deadline": _deadline,
    "output flood": _flood,
    "signals at the worker": _signals,
    "wall time": _wall,
    "memory after a hit": _after_memory,
    "reset, files": _reset,
    "reset, shared memory": _reset_shm,
    "reset, processes": _reset_processes,
    "reset, environment": _reset_environment,
    "links": _links,
    "cpu": _cpu,
}

_LENDING = {**syscalls.UNSUITED, "clone": syscalls.CLONE}
_WITHOUT_ISOLATION = ("output flood",)


def _column() -> int:
    return 0 if platform.machine() == "x86_64" else 1


def _numbers() -> dict[str, int]:
    """Numbers of the system calls a box refuses, on this machine."""
    column = _column()
    pairs = {**syscalls.REFUSED, **syscalls.ABSENT, "clone": syscalls.CLONE}
    return {name: number for name, pair in pairs.items() if (number := pair[column]) is not None}
