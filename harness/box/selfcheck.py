"""The self-check: every promise of a box, tried from inside one. `strop doctor` prints it.

A limit that is silently not applied is worse than none, so each is proved by running into it.
"""

from __future__ import annotations

import json
import platform
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from harness.box import probes, syscalls
from harness.box.base import FOLDERS, TMP, Box, Boxes, BoxSpec, Command, Completed
from harness.errors import BoxError, ExecTimeoutError, LimitError
from harness.limits import Limits
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


async def selfcheck(boxes: Boxes) -> list[Probe]:
    """Try every promise of `boxes` on this machine; about five seconds. Raises BoxUnavailableError.

    A back end that isolates nothing is only asked what it does promise: the rest would be done to the host.
    """
    await boxes.prepare()
    found = await _within(boxes) if boxes.isolated else [Probe("isolation", False, "no isolation")]
    for name, check in _CHECKS.items():
        if boxes.isolated or name in _WITHOUT_ISOLATION:
            found.append(await _apart(boxes, name, check))
    return found


async def _within(boxes: Boxes) -> list[Probe]:
    with tempfile.NamedTemporaryFile(prefix="strop-canary-") as canary, socket.create_server(("127.0.0.1", 0)) as door:
        arguments: dict[str, tuple[str, ...]] = {
            "": (),
            "canary": (canary.name,),
            "port": (str(door.getsockname()[1]),),
            "numbers": (json.dumps(_numbers()),),
            "open_files": (str(_LIMITS.open_files),),
            "disk": (str(_LIMITS.disk_mb), *_PLACES),
            "pids": (str(_LIMITS.pids),),
        }
        async with boxes.open(BoxSpec(owner=_OWNER, limits=_LIMITS)) as box:
            return [await _inside(box, name, source, arguments[kind]) for name, (source, kind) in probes.INSIDE.items()]


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
    return (await _python(box, probes.COUNT)).stdout.strip() == b"2"


def _memory(way: str) -> Check:
    async def check(box: Box) -> tuple[bool | None, str]:
        try:
            done = await _python(box, probes.HOLD, way, str(_LIMITS.memory_mb))
        except LimitError as error:
            return error.limit == "memory", error.message
        return b"held it all" not in done.stdout, f"ended with {done.exit_code} {done.stdout!r}"

    return check


async def _bomb(box: Box) -> tuple[bool | None, str]:
    started = time.monotonic()
    try:
        await _python(box, probes.BOMB, deadline_s=1.0)
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
    await _python(box, probes.DAEMON, "0")
    spent = time.monotonic() - started
    return spent < 5 and await _alone(box), f"a daemon that held the pipe was gone after {spent:.2f} s"


async def _deadline(box: Box) -> tuple[bool | None, str]:
    try:
        await _python(box, probes.DAEMON, "30", deadline_s=0.3)
    except ExecTimeoutError as error:
        return await _alone(box), f"{error.message}, with its daemon"
    return False, "it outlived its deadline"


async def _flood(box: Box) -> tuple[bool | None, str]:
    try:
        await _python(box, probes.FLOOD)
    except LimitError as error:
        kept = len(error.partial.stdout)
        return error.limit == "output" and kept <= _LIMITS.output_kb * 1024, f"{error.message}, {kept} bytes kept"
    return False, "it was never stopped"


async def _signals(box: Box) -> tuple[bool | None, str]:
    await _python(box, probes.SIGNALS)
    return await _alone(box), "64 signals at PID 1 and the box goes on"


async def _reset(box: Box) -> tuple[bool | None, str]:
    await _python(box, probes.LEAVE, *_PLACES)
    await box.reset()
    left = [place for place in (*FOLDERS, TMP) if await box.get(place, max_bytes=1 << 20)]
    done = await _python(box, "import os; print(os.listdir('/dev/shm'))")
    return not left and done.stdout.strip() == b"[]", f"left behind: {left or 'nothing'}"


async def _links(box: Box) -> tuple[bool | None, str]:
    await _python(box, "import os; os.symlink('/tmp/target', '/work/f'); os.symlink('/tmp', '/work/d')")
    await box.put([Entry(b"f", "file", data=b"x"), Entry(b"d/target", "file", data=b"x")], "/work")
    followed = await box.get(TMP, max_bytes=1 << 20)
    await _python(box, "import os; os.symlink('/usr', '/out/l'); os.mkfifo('/out/p')")
    kinds = {entry.path: entry.kind for entry in await box.get("/out", max_bytes=1 << 20)}
    named = kinds == {b"l": "symlink", b"p": "fifo"}
    return not followed and named, f"followed in: {bool(followed)}, named on the way out: {named}"


async def _cpu(box: Box) -> tuple[bool | None, str]:
    done = await _python(box, probes.BURN)
    used = done.cpu_s / done.wall_s
    detail = f"8 busy processes used {used:.2f} cpus at a limit of {_LIMITS.cpus:g}"
    return (True if used < _LIMITS.cpus * 1.3 else None), detail


_CHECKS: Mapping[str, Check] = {
    "memory, one process": _memory("one"),
    "memory, many processes": _memory("many"),
    "memory, unmapped pages": _memory("hidden"),
    "fork bomb": _bomb,
    "file names": _names,
    "daemon that holds the pipe": _daemon,
    "daemon past a deadline": _deadline,
    "output flood": _flood,
    "signals at the worker": _signals,
    "reset": _reset,
    "links": _links,
    "cpu": _cpu,
}

_WITHOUT_ISOLATION = ("output flood",)


def _numbers() -> dict[str, int]:
    """Numbers of the system calls a box refuses, on this machine."""
    column = 0 if platform.machine() == "x86_64" else 1
    pairs = {**syscalls.REFUSED, **syscalls.ABSENT, "clone": syscalls.CLONE}
    return {name: number for name, pair in pairs.items() if (number := pair[column]) is not None}
