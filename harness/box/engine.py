# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (the docker SDK has no types; this module is the only one that touches it)
"""A Docker engine: found as the docker client finds it, called in threads, each call with a deadline.

DOCKER_HOST and contexts come first, then the sockets of a rootless engine and of Docker Desktop.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from harness.errors import InfraError, MissingEnvironmentError

CALL_S = 30.0  # a socket that says nothing for so long belongs to an engine that does not answer
PING_S = 5.0
AWAY_S = 30.0  # how long an engine may be away (a restart) before a box that needs it fails
CALLS = 32
Api: TypeAlias = Any  # docker.APIClient
_T = TypeVar("_T")


def sockets() -> list[str]:
    """Where engines listen that neither DOCKER_HOST nor a context names: rootless, Docker Desktop, the system's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    home = Path.home()
    places = [Path("/var/run/docker.sock"), Path(runtime) / "docker.sock"]
    places += [home / ".docker/run/docker.sock", home / ".docker/desktop/docker.sock"]
    found = [f"unix://{place}" for place in places if os.access(place, os.R_OK | os.W_OK)]
    return [url for url in found if _listens(url)]


def connect(seconds: float = CALL_S) -> Api:
    """A client of the first engine that answers. Blocks. Raises MissingEnvironmentError."""
    import docker
    from docker.errors import DockerException

    given = os.environ.get("DOCKER_HOST", "")
    tried: list[str] = [] if _listens(given) else [f"nothing listens at DOCKER_HOST, {given}"]
    options: dict[str, Any] = {"timeout": seconds, "max_pool_size": CALLS}
    ways: list[Callable[[], Any]] = [] if tried else [lambda: docker.from_env(**options)]
    if not given:
        ways += [lambda url=url: docker.DockerClient(base_url=url, **options) for url in sockets()]
    for way in ways:
        client = None
        try:
            client = way()
            client.ping()
        except (DockerException, OSError, ValueError) as error:
            tried.append(str(error)[:200])
            if client is not None:
                client.close()
        else:
            return client.api
    raise MissingEnvironmentError(
        "docker", reason=tried[0] if tried else "no engine", mend="start Docker, or set DOCKER_HOST to where it runs"
    )


def _listens(url: str) -> bool:
    """False for a Unix socket that nobody serves; the docker client would leak its own attempt."""
    if not url.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(PING_S)
        return door.connect_ex(url.removeprefix("unix://")) == 0


class Engine:
    """One engine. Every method blocks its own thread, not the loop; whatever goes wrong there is an InfraError."""

    def __init__(self) -> None:
        self._api: Api = None
        self._limiter: anyio.CapacityLimiter | None = None

    async def open(self) -> None:
        """Connect once. Raises MissingEnvironmentError."""
        if self._api is None:
            self._api = await anyio.to_thread.run_sync(connect)
            weakref.finalize(self, self._api.close)

    async def call(self, what: str, work: Callable[[Api], _T], *, patient: bool = False) -> _T:
        """`work(api)` to its end, also when cancelled, for it may make things that must be known. `patient` tries once
        more when an engine that was away is back."""
        try:
            return await self._call(what, work)
        except InfraError:
            if not patient or await self.answers():
                raise
        await self._back()
        return await self._call(what, work)

    async def _call(self, what: str, work: Callable[[Api], _T]) -> _T:
        result: list[_T] = []
        self._limiter = self._limiter or anyio.CapacityLimiter(CALLS)
        with anyio.CancelScope(shield=True):
            result.append(await anyio.to_thread.run_sync(_judged, what, work, self._api, limiter=self._limiter))
        return result[0]

    async def answers(self) -> bool:
        """Whether it answers now."""
        with anyio.move_on_after(PING_S):
            return await anyio.to_thread.run_sync(_pings, self._api, abandon_on_cancel=True)
        return False

    async def _back(self) -> None:
        deadline = anyio.current_time() + AWAY_S
        while not await self.answers():
            if anyio.current_time() > deadline:
                raise InfraError(f"the docker engine did not answer for {AWAY_S:g} s")
            await anyio.sleep(0.25)


def _pings(api: Api) -> bool:
    from docker.errors import DockerException

    try:
        return bool(api.ping())
    except (DockerException, OSError):
        return False


def _judged(what: str, work: Callable[[Api], _T], api: Api) -> _T:
    from docker.errors import DockerException

    try:
        return work(api)
    except (DockerException, OSError) as error:  # requests' errors are OSErrors
        raise InfraError(f"docker could not {what}: {str(error)[:400]}") from error


def remove(api: Api, container: str) -> bool:
    """Kill and remove a container; whether there was one. Blocks."""
    from docker.errors import APIError, NotFound

    try:
        api.remove_container(container, force=True, v=True)
    except NotFound:
        return False
    except APIError as error:
        if error.status_code == 409:  # another removal is on its way
            return True
        raise
    return True


def attach(api: Api, container: str) -> socket.socket:
    """The container's standard streams as one plain socket. Blocks; before it is started."""
    held = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    plain = getattr(held, "_sock", held)
    if isinstance(plain, socket.socket) and type(plain) is socket.socket:
        ours = socket.socket(fileno=os.dup(plain.fileno()))
        held._response.close()
        held.close()
        plain.close()
        return ours
    ours, theirs = socket.socketpair()  # TLS or ssh: a thread carries between that and a plain pair
    threading.Thread(target=_carry, args=(held, theirs), name="strop-attach", daemon=True).start()
    return ours


def _carry(remote: Any, pair: socket.socket) -> None:
    """Until one of the two ends."""
    receive = getattr(remote, "recv", None) or remote.read
    send = getattr(remote, "sendall", None) or remote.write
    pending: Callable[[], int] = getattr(remote, "pending", None) or (lambda: 0)
    try:
        while True:
            ready: Sequence[Any] = [remote] if pending() else select.select([remote, pair], [], [])[0]
            for source, sink in ((remote, pair.sendall), (pair, send)):
                if source in ready:
                    data = receive(65536) if source is remote else pair.recv(65536)
                    if not data:
                        return
                    sink(data)
    except OSError:
        return
    finally:
        pair.close()
        remote.close()
