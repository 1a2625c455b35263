"""Starts the programs of embedded boxes and holds them: streams, exit, kill.

As root, one thread lives in a mount namespace of its own, where every source has a place that an unprivileged uid can
read (an interpreter below a private home is not readable once the uid is dropped). Programs are forked from that
thread, so the places are made once a process and not once a box, and no launcher's start is paid for.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import select
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, ByteSendStream

PLACE = "/tmp"  # noqa: S108 - hidden under a tmpfs in one thread's own namespace only
_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19


class Sending(ByteSendStream):
    """Bytes into a pipe or socket that does not block."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def send(self, item: bytes) -> None:
        left = memoryview(item)
        while left:
            if self._descriptor < 0:
                raise anyio.ClosedResourceError
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._descriptor)
            except OSError as error:
                raise anyio.BrokenResourceError from error
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Receiving(ByteReceiveStream):
    """Bytes out of a pipe or socket that does not block."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def receive(self, max_bytes: int = 65536) -> bytes:
        while True:
            if self._descriptor < 0:
                raise anyio.ClosedResourceError
            try:
                data = os.read(self._descriptor, max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._descriptor)
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            await anyio.lowlevel.checkpoint()
            return data

    def waiting(self) -> bool:
        """Whether something is to be read now, if only the end."""
        if self._descriptor < 0:
            return True
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        return bool(poller.poll(0))

    async def aclose(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Child:
    """A started program: three streams, its number, its end."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.pid = popen.pid
        self._popen = popen
        self._handle = os.pidfd_open(popen.pid)
        self._waiting = anyio.Lock()
        self.stdin = Sending(os.dup(popen.stdin.fileno()))
        self.stdout = Receiving(os.dup(popen.stdout.fileno()))
        self.stderr = Receiving(os.dup(popen.stderr.fileno()))
        for stream in (popen.stdin, popen.stdout, popen.stderr):
            stream.close()

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    async def wait(self) -> int:
        """Until it has ended. Any number of tasks may: who closes a box and who pools it both do."""
        async with self._waiting:
            while (code := self._popen.poll()) is None:
                await anyio.wait_readable(self._handle)
        return code

    def kill(self) -> None:
        """Kill it; nothing when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def aclose(self) -> None:
        """Close its streams and let it end; killed when it does not."""
        with anyio.CancelScope(shield=True):
            for stream in (self.stdin, self.stdout, self.stderr):
                await stream.aclose()
            if self.returncode is None:
                with anyio.move_on_after(5):
                    await self.wait()
                self.kill()
                await self.wait()
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def start(command: Sequence[str], *, inherited: Sequence[int]) -> Child:
    """`command` with an empty environment, in a session of its own. Blocks. Raises OSError."""
    return Child(
        subprocess.Popen(  # noqa: S603 - ours
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            pass_fds=inherited,
            start_new_session=True,
        )
    )


class Lifted:
    """Starts programs of an unprivileged uid, with every source at a place that it can read. For root."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Child], Callable[[], Child]]] = queue.SimpleQueue()
        self._places: dict[str, str] = {}
        threading.Thread(target=self._serve, name="strop-spawn", daemon=True).start()

    def start(
        self,
        spell: Callable[[dict[str, str]], list[str]],
        *,
        sources: Sequence[str],
        uid: int,
        inherited: Sequence[int],
    ) -> Child:
        """Run what `spell` makes of {source: place} as `uid`, else as `start`. Blocks. Raises OSError."""

        def job() -> Child:
            for source in sources:
                self._lift(source)
            return Child(
                subprocess.Popen(  # noqa: S603 - ours
                    spell(self._places),
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={},
                    cwd="/",
                    pass_fds=inherited,
                    start_new_session=True,
                    user=uid,
                    group=uid,
                    extra_groups=(),
                )
            )

        done: Future[Child] = Future()
        self._jobs.put((done, job))
        return done.result()

    def _serve(self) -> None:
        failed: OSError | None = None
        try:
            self._part()
        except OSError as error:
            failed = error
        while True:
            done, job = self._jobs.get()
            if failed is not None:
                done.set_exception(failed)
                continue
            try:
                done.set_result(job())
            except Exception as error:
                done.set_exception(error)

    def _part(self) -> None:
        """Leave the host's mounts. Its unmounts reach us still, nothing of ours reaches it."""
        _must(_libc().unshare(_CLONE_NEWNS), "unshare")
        _mount("none", "/", flags=_MS_REC | _MS_SLAVE)
        self._under = os.open(PLACE, os.O_PATH)  # a source may lie below the place that is covered
        _mount("tmpfs", PLACE, kind="tmpfs", data="mode=755,size=1m")

    def _lift(self, source: str) -> None:
        if source in self._places:
            return
        at = f"{PLACE}/{len(self._places)}"
        below = source == PLACE or source.startswith(PLACE + "/")
        inside = source[len(PLACE) :].lstrip("/") or "."
        held = os.open(inside, os.O_PATH, dir_fd=self._under) if below else os.open(source, os.O_PATH)
        try:
            if stat.S_ISDIR(os.fstat(held).st_mode):
                os.makedirs(at, exist_ok=True)  # noqa: PTH103
            else:
                os.close(os.open(at, os.O_CREAT, 0o644))
            _mount(f"/proc/thread-self/fd/{held}", at, flags=_MS_BIND | _MS_REC)
        finally:
            os.close(held)
        self._places[source] = at


def lifted() -> Lifted:
    """The one of this process; a fork of it gets its own."""
    return _lifted(os.getpid())


@cache
def _lifted(_pid: int) -> Lifted:
    return Lifted()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(source: str, at: str, *, kind: str | None = None, flags: int = 0, data: str = "") -> None:
    encoded = [part.encode() if part is not None else None for part in (source, at, kind, data)]
    _must(_libc().mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount on {at}")


def _must(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
