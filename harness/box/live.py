"""`LiveBox`: the Box that every back end hands out, over a worker's wire and a way to kill it.

A back end brings the client, the paths of the box's folders as the worker sees them, and `end`, which kills the
whole box and returns when nothing of it is left.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import anyio

from harness.box.base import FOLDERS, TMP, Command
from harness.box.client import Captured, Client, Ended, GuestError, Request
from harness.box.prefix import Python
from harness.box.relay import Link, environment
from harness.box.wire import MAX_FRAME
from harness.errors import BoxClosedError, ExecTimeoutError, InfraError, InputError, LimitError
from harness.limits import Limits
from harness.records import Completed
from harness.tree import Entry

GRACE_S = 5.0  # the worker keeps the deadline; past this much more, the host kills the box
FILES_S = 120.0  # for one put, get or reset
_T = TypeVar("_T")
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class Place:
    """How commands meet this box: the base environment and the Python, both as the worker sees them, and the map from
    the box's paths to the worker's."""

    env: Mapping[str, str]
    python: str
    prefixes: Mapping[str, str] = field(default_factory=dict[str, str])

    def path(self, text: str) -> str:
        """`text`, with a leading folder of the box replaced by where it really is; the interpreter is where it is."""
        if text == self.python:
            return text
        for inside, outside in self.prefixes.items():
            if text == inside or text.startswith(inside + "/"):
                return outside + text[len(inside) :]
        return text


class LiveBox:
    """One live sandbox. See `harness.box.base.Box`."""

    def __init__(
        self,
        client: Client,
        *,
        limits: Limits,
        place: Place,
        end: Callable[[], Awaitable[None]],
        oom_kills: Callable[[], int] = lambda: 0,
        answers: Callable[[], Awaitable[bool]] | None = None,
        speaks: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._limits = limits
        self._place = place
        self._end = end
        self._oom_kills = oom_kills
        self._answers = answers
        self._speaks = speaks
        self._closed = ""
        self._models: Mapping[str, str] = {}
        self._guard = anyio.ResourceGuard("using this box")

    @property
    def ended(self) -> bool:
        """Whether it died while nobody used it: an idle worker says nothing, so anything to read is its end."""
        return bool(self._closed) or self._speaks()

    async def put(self, entries: Iterable[Entry], at: str, *, read_only: bool = False) -> None:
        with self._turn():
            where = self._path(at).encode()
            try:
                await self._within(FILES_S, self._client.put(entries, where, read_only=read_only))
            except GuestError as failure:
                if failure.errno in _DISK_FULL:
                    raise LimitError("disk", value=self._limits.disk_mb, partial=_nothing()) from None
                raise InfraError(f"cannot write below {at}: {failure}") from None

    async def exec(self, command: Command) -> Completed:
        with self._turn():
            request = self._request(command)
            captured = Captured(self._limits.output_kb * 1024)
            kills = self._oom_kills()
            started = time.monotonic()
            ended: Ended | None = None
            try:
                with anyio.move_on_after(command.deadline_s + GRACE_S):
                    ended = await self._client.exec(request, captured)
            except InfraError:
                await self.close("its worker died")
                if self._oom_kills() <= kills:
                    raise
                ended = Ended(-9, "memory", 0.0)
            except BaseException:
                await self.close("an exec was cancelled")
                raise
            if ended is None:
                carried = self._answers is None or await self._answers()
                await self.close("a command outlived its deadline")
                if not carried:
                    raise InfraError("what carries the box's wire does not answer")
                ended = Ended(-9, "deadline", 0.0)
            elif self._oom_kills() > kills:
                ended = replace(ended, reason="memory")
            return self._judged(command, ended, captured, time.monotonic() - started)

    async def attach(self, link: Link) -> None:
        with self._turn():
            try:
                port = await self._within(FILES_S, self._client.listen(link))
            except GuestError as failure:
                raise InfraError(f"the box cannot listen on loopback: {failure}") from None
        self._models = environment(port)

    async def get(self, at: str, *, max_bytes: int, max_entries: int = 10_000) -> list[Entry]:
        with self._turn():
            where = self._path(at).encode()
            found = await self._within(FILES_S, self._client.get(where, max_bytes=max_bytes, max_entries=max_entries))
        if found is None:
            raise LimitError("output", value=max_bytes, partial=_nothing())
        return found

    async def reset(self) -> None:
        self._models = {}
        with self._turn():
            try:
                await self._within(FILES_S, self._client.reset())
            except GuestError as failure:
                await self.close("it could not be emptied")
                raise InfraError(f"the box could not be emptied, and is closed: {failure}") from None

    async def close(self, reason: str = "its owner closed it") -> None:
        """Kill everything in the box. May be called again."""
        self._closed = self._closed or reason
        with anyio.CancelScope(shield=True):
            await self._end()

    async def _within(self, seconds: float, awaitable: Awaitable[_T]) -> _T:
        """`awaitable`, after which the box is closed unless the wire is still in step."""
        try:
            with anyio.fail_after(seconds):
                return await awaitable
        except (GuestError, ValueError):
            raise
        except TimeoutError:
            await self.close("it did not answer")
            raise InfraError(f"the box did not answer within {seconds:g} s") from None
        except BaseException:
            await self.close("its wire broke or was cancelled")
            raise

    @contextmanager
    def _turn(self) -> Generator[None]:
        if self._closed:
            raise BoxClosedError(f"this box is closed: {self._closed}")
        with self._guard:
            yield

    def _path(self, at: str) -> str:
        clean = at.rstrip("/")
        parts = clean.split("/")
        if "/" + parts[1 if len(parts) > 1 else 0] not in {*FOLDERS, TMP} or ".." in parts or "\0" in at:
            raise ValueError(f"not a folder of the box: {at!r}")
        return self._place.path(clean)

    def _request(self, command: Command) -> Request:
        """`command` in the worker's paths. Raises InputError for one that no box could be told."""
        if not command.argv:
            raise InputError("a command needs at least the name of a program", key="argv")
        if math.isnan(command.deadline_s):
            raise InputError("a deadline is a number of seconds", key="deadline_s")
        try:
            request = self._spelled(command)
        except UnicodeEncodeError as error:
            raise InputError(f"cannot be told to a program: {error}", key="a command") from None
        said = (*request.argv, *request.env, *request.env.values(), request.cwd)
        if any(b"\0" in part for part in said) or any(not name or b"=" in name for name in request.env):
            raise InputError("has a zero byte, or a variable without a name or with = in it", key="a command")
        if sum(len(part) + 4 for part in said) > MAX_FRAME - 256:
            mend = "put what is long into a file, or into its standard input"
            raise InputError(
                f"words and environment are longer than {MAX_FRAME // 1024} kB", key="a command", mend=mend
            )
        return request

    def _spelled(self, command: Command) -> Request:
        place = self._place
        argv = [place.path(argument) for argument in command.argv]
        if argv[0] == "python":
            argv[0] = place.python
        env = {**place.env, **self._models, **{name: place.path(value) for name, value in command.env.items()}}
        if command.ahead and "PATH" not in command.env:
            env["PATH"] = ":".join([*map(place.path, command.ahead), env["PATH"]])
        return Request(
            argv=[argument.encode() for argument in argv],
            env={name.encode(): value.encode() for name, value in env.items()},
            cwd=place.path(command.cwd).encode(),
            stdin=command.stdin,
            deadline_s=command.deadline_s,
        )

    def _judged(self, command: Command, ended: Ended, captured: Captured, wall_s: float) -> Completed:
        completed = Completed(
            exit_code=ended.exit_code,
            stdout=bytes(captured.stdout),
            stderr=bytes(captured.stderr),
            truncated=captured.truncated,
            wall_s=wall_s,
            cpu_s=ended.cpu_s,
            memory_mb=ended.memory_mb,
        )
        if ended.reason == "deadline":
            raise ExecTimeoutError(command.deadline_s, partial=completed)
        if ended.reason:
            raise LimitError(ended.reason, value=_limit(self._limits, ended.reason), partial=completed)
        return completed


async def unbroken(awaitable: Awaitable[_T]) -> _T:
    """Await something short to its end, also when cancelled: asyncio loses the pipes of a process whose start is
    cancelled half-way."""
    result: list[_T] = []
    with anyio.CancelScope(shield=True):
        result.append(await awaitable)
    return result[0]


def box_env(python: Python, limits: Limits, *, home: str) -> dict[str, str]:
    """The environment every command of a box starts from; nothing of the host's."""
    threads = str(max(1, int(limits.cpus)))
    return {
        "PATH": f"{Path(python.executable).parent}:/usr/bin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **python.env,
    }


def worker_config(
    limits: Limits,
    *,
    places: Sequence[str],
    keep: Sequence[str],
    disk: bool,
    nproc: bool,
    held: Collection[str] = (),
    warm: Sequence[str] = (),
) -> dict[str, bytes]:
    """What the worker is told of its box. `disk`: the places are tmpfs of its own. `nproc`: the kernel counts the
    box's processes apart. `held` names limits that a control group holds, which the worker need not watch. `warm` is
    the Python whose commands may be forks of the worker, then the modules to import first; empty where none may."""
    return {
        "places": "\0".join(places).encode(),
        "keep": "\0".join(keep).encode(),
        "memory": b"%d" % (limits.memory_mb << 20),
        "disk": b"%d" % ((limits.disk_mb << 20) if disk else 0),
        "pids": b"%d" % limits.pids,
        "open_files": b"%d" % limits.open_files,
        "nproc": b"%d" % (limits.pids if nproc else 0),
        "watch_memory": b"0" if "memory" in held else b"1",
        "watch_pids": b"0" if nproc or "pids" in held else b"1",
        "warm": "\0".join(warm).encode(),
    }


def _limit(limits: Limits, name: str) -> float:
    values = {
        "memory": limits.memory_mb,
        "pids": limits.pids,
        "disk": limits.disk_mb,
        "output": limits.output_kb * 1024,
        "open_files": limits.open_files,
    }
    return float(values[name])


def _nothing() -> Completed:
    return Completed(exit_code=0, stdout=b"", stderr=b"", truncated=False, wall_s=0.0, cpu_s=0.0)
