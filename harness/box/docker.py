"""Docker boxes: one hardened container for the life of a box, our guest worker its PID 1, spoken to over its streams.

No folder is shared and nothing listens, so a remote engine and Docker Desktop work as a local one does. The worker's
source goes in over the same stream, so any image with a Python of 3.9 or later will do. When the host dies the engine
closes the stream, the worker leaves with everything, and the engine removes the container by itself.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream

from harness.box import engine as engines
from harness.box import host, wire
from harness.box.base import BoxSpec, Command
from harness.box.bubblewrap import PLACES
from harness.box.client import Client, GuestError
from harness.box.containers import HOST_LABEL, OWNER_LABEL, reap_containers
from harness.box.embedded import OWNER
from harness.box.engine import Api, Engine
from harness.box.gpus import ALL, leased
from harness.box.guest import guest_sources
from harness.box.live import LiveBox, Place, worker_config
from harness.box.reaper import sweep
from harness.box.seccomp import profile
from harness.box.spawn import Receiving, Sending
from harness.errors import BoxUnavailableError, InfraError, MissingEnvironmentError, StropError
from harness.limits import Limits

IMAGE = "strop-box"
START_S = 30.0
UID = 1000
_PYTHON = "python3"
_OWN_TASKS = 2
_SAID = 4000
_BOOT = """
import os, sys
def read(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part: os._exit(0)
        data += part
    return data
def field(): return read(int.from_bytes(read(4), "big"))
for _ in range(int(field())):
    name, source = field().decode(), field()
    module = sys.modules[name] = type(sys)(name)
    exec(compile(source, name, "exec"), module.__dict__)
command = sys.modules["serve"].main()
if command is not None: sys.modules["warm"].start(command)
"""


class DockerBoxes:
    """Opens hardened containers of one image. `image` is any that the engine has; it is never pulled."""

    name: Literal["docker"] = "docker"
    isolated = True

    def __init__(self, image: str = IMAGE) -> None:
        self.image = image
        self._engine = Engine()
        self._info: Mapping[str, Any] = {}
        self._env: dict[str, str] = {}
        self._prepared = False

    async def prepare(self) -> None:
        if self._prepared:
            return
        await anyio.to_thread.run_sync(sweep)
        try:
            await self._look()
            await self.reap([])
            async with self.open(BoxSpec(owner="prepare", limits=Limits(disk_mb=8))) as box:
                done = await box.exec(Command(("python", "-c", "print(6 * 7)"), deadline_s=START_S))
        except BoxUnavailableError:
            raise
        except MissingEnvironmentError as error:
            raise BoxUnavailableError("docker boxes", reason=error.reason, mend=error.mend) from None
        except StropError as error:
            raise BoxUnavailableError("docker boxes", reason=error.message, mend=_mend(error.message)) from None
        if done.stdout.strip() != b"42":
            said = (done.stderr or done.stdout)[-300:]
            raise BoxUnavailableError("docker boxes", reason=f"python said {said!r}", mend=_MEND)
        self._prepared = True

    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[LiveBox]:
        return self._open(spec)

    def enforcement(self) -> dict[str, str]:
        """How each limit is held by this engine."""
        cgroups = f"cgroup v{self._info.get('CgroupVersion', '?')}, docker"
        return {
            "isolation": f"container ({self.image}, docker {self._info.get('ServerVersion', '?')})",
            "memory": cgroups if "memory" in self._held() else "watchdog in the box, every 50 ms",
            "pids": cgroups if "pids" in self._held() else "watchdog in the box, every 50 ms",
            "cpu": cgroups if self._info.get("CpuCfsQuota") else "not held: this engine cannot",
            "disk": "size-limited tmpfs",
        }

    async def reap(self, owners: Sequence[str]) -> int:
        await self._engine.open()
        return await self._engine.call("remove what dead hosts left", lambda api: reap_containers(api, owners))

    async def _look(self) -> None:
        """What the engine can hold, and the image's own environment. Raises BoxUnavailableError."""
        await self._engine.open()
        if self._info:
            return
        info = await self._engine.call("say what it is", lambda api: api.info())
        try:
            image = await self._engine.call("find the image", lambda api: api.inspect_image(self.image))
        except InfraError as error:
            raise BoxUnavailableError("docker boxes", reason=error.message, mend=_mend(error.message)) from None
        settings: Mapping[str, list[str] | None] = image["Config"] or {}
        self._env = dict(pair.split("=", 1) for pair in settings.get("Env") or () if "=" in pair)
        self._info = info

    def _held(self) -> frozenset[str]:
        names = {"MemoryLimit": "memory", "PidsLimit": "pids"}
        return frozenset(name for key, name in names.items() if self._info.get(key))

    @asynccontextmanager
    async def _open(self, spec: BoxSpec) -> AsyncGenerator[LiveBox]:
        if not OWNER.fullmatch(spec.owner):
            raise ValueError(f"an owner is a plain name of at most 64 characters, not {spec.owner!r}")
        await self._look()
        async with leased(() if spec.reusable else spec.gpus) as devices, self._started(spec, devices) as box:
            yield box

    @asynccontextmanager
    async def _started(self, spec: BoxSpec, devices: Sequence[str]) -> AsyncGenerator[LiveBox]:
        try:
            name, stream = await self._engine.call(
                "start a box", lambda api: self._start(api, spec, devices), patient=True
            )
        except BaseException as error:
            await _pay(self._engine)
            if devices and "device driver" in str(error):
                raise BoxUnavailableError("gpus", reason=str(error), mend=_GPU_MEND) from None
            raise
        body = _Body(self._engine, name, stream)
        try:
            box = await self._greet(body, spec)
            try:
                yield box
            finally:
                await box.close()
        finally:
            with anyio.CancelScope(shield=True):
                await body.end()

    def _start(self, api: Api, spec: BoxSpec, devices: Sequence[str]) -> tuple[str, socket.socket]:
        """The name of a started container, and its streams. Blocks."""
        name = f"strop-{secrets.token_hex(8)}"
        stream: socket.socket | None = None
        try:
            api.create_container(
                **self._recipe(api, name, spec, devices)
            )  # an engine may make it and not live to say so
            stream = engines.attach(api, name)
            api.start(name)
        except BaseException:
            if stream is not None:
                stream.close()
            self._engine.owed.add(name)
            raise
        return name, stream

    def _recipe(self, api: Api, name: str, spec: BoxSpec, devices: Sequence[str] = ()) -> dict[str, Any]:
        limits = spec.limits
        size = f"rw,exec,nosuid,nodev,size={limits.disk_mb}m,uid={UID},gid={UID}"
        places = {place: f"{size},mode={'1777' if place in _SHARED else '0755'}" for place in PLACES}
        options: dict[str, Any] = {
            "network_mode": "none",
            "ipc_mode": "none",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true", f"seccomp={profile()}"],
            "tmpfs": {**places, "/dev/mqueue": "ro,size=4k"},  # an open file system that a reset would not empty
            "ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
            "log_config": {"Type": "none"},
            "auto_remove": True,
            "init": False,
            # not "binds": for those an engine elsewhere makes an empty folder where it has none
            "mounts": [
                {"Type": "bind", "Source": str(mount.source.resolve()), "Target": mount.at, "ReadOnly": True}
                for mount in spec.mounts
            ],
        }
        if devices:
            chosen = {"Count": -1} if ALL in devices else {"DeviceIDs": list(devices)}
            options["device_requests"] = [{**chosen, "Capabilities": [["gpu"]]}]
        if self._info.get("PidsLimit"):
            options["pids_limit"] = limits.pids + _OWN_TASKS
        if self._info.get("MemoryLimit"):
            options |= {"mem_limit": f"{limits.memory_mb}m"}
            options |= {"memswap_limit": f"{limits.memory_mb}m"} if self._info.get("SwapLimit") else {}
        if self._info.get("CpuCfsQuota"):
            options |= {"cpu_period": 100_000, "cpu_quota": max(1000, int(limits.cpus * 100_000))}
        return {
            "image": self.image,
            "name": name,
            "entrypoint": [_PYTHON, *(["-I", "-S", "-E"] if spec.warm is None else []), "-c", _BOOT],
            **({} if spec.warm is None else {"environment": _box_env(self._env, spec.limits)}),
            "command": [],
            "user": f"{UID}:{UID}",
            "working_dir": "/",
            "hostname": "box",
            "stdin_open": True,  # once: the stream's end is the worker's
            "network_disabled": True,
            "labels": {OWNER_LABEL: spec.owner, HOST_LABEL: host.token()},
            "host_config": api.create_host_config(**options),
        }

    async def _greet(self, body: _Body, spec: BoxSpec) -> LiveBox:
        client = Client(body.sending, body.receiving)
        keep = sorted({mount.at for mount in spec.mounts})
        try:
            with anyio.fail_after(START_S):
                await body.sending.send(_guest())
                await client.greet(hardened=True)
                await client.configure(
                    worker_config(
                        spec.limits,
                        places=PLACES,
                        keep=keep,
                        disk=True,
                        nproc=False,
                        held=self._held(),
                        warm=() if spec.warm is None else (_PYTHON, *spec.warm),
                    )
                )
        except (TimeoutError, anyio.BrokenResourceError):
            raise InfraError(f"a docker box did not start within {START_S:g} s") from None
        except GuestError as failure:
            raise InfraError(f"a docker box could not be set up: {failure}") from None
        except InfraError as error:
            said = bytes(body.receiving.errors).decode(errors="backslashreplace").strip() or "it said nothing"
            raise InfraError(f"{error.message}: {said}") from None
        return LiveBox(
            client,
            limits=spec.limits,
            place=Place(_box_env(self._env, spec.limits), _PYTHON),
            end=body.end,
            answers=self._engine.answers,
            speaks=body.speaks,
        )


class _Body:
    """One container, as the host holds it."""

    def __init__(self, engine: Engine, name: str, stream: socket.socket) -> None:
        stream.setblocking(False)
        self._engine = engine
        self._name = name
        self._stream = stream
        self._ended = False
        self.sending = Sending(stream.fileno())
        received = Receiving(stream.fileno())
        self.speaks = received.waiting
        self.receiving = Demultiplexed(received)

    async def end(self) -> None:
        """Kill the container and wait until the engine says it is gone. May be called again."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        try:
            self._engine.owed.add(self._name)
            await _pay(self._engine)
        finally:
            self._stream.close()


async def _pay(engine: Engine) -> None:
    """Remove the containers that are owed to be removed: now, or with the next one when the engine is away."""
    with anyio.CancelScope(shield=True), contextlib.suppress(InfraError):
        await engine.call("remove a box", lambda api: _paid(engine, api))


def _paid(engine: Engine, api: Api) -> None:
    for name in list(engine.owed):
        engines.remove(api, name)
        engine.owed.discard(name)


class Demultiplexed(ByteReceiveStream):
    """Standard output out of the engine's frames (type u8, three zero bytes, size u32); the tail of standard error is
    kept aside. Holds no more than one read."""

    def __init__(self, raw: ByteReceiveStream) -> None:
        self.errors = bytearray()
        self._raw = raw
        self._head = bytearray()
        self._kind = 0
        self._missing = 0
        self._held = memoryview(b"")

    async def receive(self, max_bytes: int = 65536) -> bytes:
        while True:
            out = self._take(max_bytes)
            if out:
                return out
            self._held = memoryview(await self._raw.receive(max_bytes))

    def _take(self, most: int) -> bytes:
        """The next bytes of standard output among those held; empty when there are none."""
        while self._held:
            if self._missing:
                part = self._held[: min(self._missing, most)]
                self._held = self._held[len(part) :]
                self._missing -= len(part)
                if self._kind == 1:
                    return bytes(part)
                self.errors += part
                del self.errors[:-_SAID]
                continue
            part = self._held[: 8 - len(self._head)]
            self._held = self._held[len(part) :]
            self._head += part
            if len(self._head) == 8:
                self._kind, self._missing = self._head[0], int.from_bytes(self._head[4:])
                if self._kind not in {1, 2} or any(self._head[1:4]):
                    raise InfraError("the engine sent a stream that is not one of a container without a terminal")
                self._head.clear()
        return b""

    async def aclose(self) -> None:
        await self._raw.aclose()


_SHARED = {"/tmp", "/dev/shm"}  # noqa: S108 - paths inside the box
_GPU_MEND = "install the NVIDIA container toolkit where the engine runs, or leave box.gpus out"
_MEND = (
    "`strop image build`, or without a registry `strop image import --from-host`; then name it under box.image "
    f"(by default {IMAGE})"
)
_BUSY = "see whether the engine answers (`docker info`) or is only busy, and try again; or run with --box embedded"


def _mend(reason: str) -> str:
    slow = ("timed out", "did not answer", "did not start", "nothing listens")
    return _BUSY if any(mark in reason for mark in slow) else _MEND


def _guest() -> bytes:
    sources = guest_sources()
    parts = [b"%d" % len(sources), *(part for name, source in sources.items() for part in (name.encode(), source))]
    return wire.pack(parts)


def _box_env(image: Mapping[str, str], limits: Limits) -> dict[str, str]:
    threads = str(max(1, int(limits.cpus)))
    return {
        "PATH": image.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "HOME": "/",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }


def available(image: str) -> bool:
    """Whether an engine answers quickly and has `image`. Blocks, for seconds at most."""
    try:
        with contextlib.closing(engines.connect(engines.PING_S)) as api:
            api.inspect_image(image)
    except Exception:
        return False
    return True
