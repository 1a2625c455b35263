# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (the docker SDK has no types; this module is the only one that touches it)
"""A Docker engine: found as the docker client finds it, called in threads, each call with a deadline.

An engine that nobody serves is not even called: the SDK would leave its socket to the collector.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from harness.box import dial
from harness.box.endpoint import Endpoint, endpoints, locked
from harness.errors import InfraError, MissingEnvironmentError

CALL_S = 30.0  # a socket that says nothing for so long belongs to an engine that does not answer
PING_S = 5.0
AWAY_S = 30.0  # how long an engine may be away (a restart) before a box that needs it fails
CALLS = 32
Api: TypeAlias = Any  # docker.APIClient
_T = TypeVar("_T")


def connect(seconds: float = CALL_S) -> Api:
    """A client of the first engine that answers. Blocks. Raises MissingEnvironmentError."""
    return _connect(seconds)[1]


_START = "start Docker, or set DOCKER_HOST to where it runs"
_ALLOW = (
    "ask for access to the engine (most often: join the group docker with `sudo usermod -aG docker $USER` and log in "
    "anew), use a rootless engine, or run with --box embedded"
)
DIAL_S = 10.0  # an engine that says nothing for so long when it is first spoken to


def _connect(seconds: float) -> tuple[Endpoint, Api]:
    from docker.errors import DockerException

    tried: list[str] = []
    denied = False
    for endpoint in endpoints():
        if not endpoint.served():
            denied = denied or endpoint.denied()
            what = "permission denied" if endpoint.denied() else "nothing listens"
            tried.append(f"{what} at {endpoint.url}, named by {endpoint.named_by}")
            continue
        client = None
        try:
            client = _client(endpoint, min(seconds, DIAL_S))
            client.ping()
            client.timeout = int(seconds)
        except (DockerException, OSError, ValueError) as error:
            denied = denied or "ermission denied" in str(error)
            tried.append(f"{endpoint.url}, named by {endpoint.named_by}: {_plain(error)}")
            if client is not None:
                client.close()
        else:
            return endpoint, client
    if not tried:
        tried = [f"permission denied at {url}" for url in locked()]
        denied = bool(tried)
    raise MissingEnvironmentError("docker", reason="; ".join(tried) or "no engine", mend=_ALLOW if denied else _START)


def _plain(error: Exception) -> str:
    """What went wrong, out of the clients' nested texts."""
    text = str(error)
    for mark, said in _SAID.items():
        if mark in text:
            return said
    return text[:200]


_SAID = {
    "ermission denied": "permission denied",
    "timed out": "it does not answer in time",
    "Connection refused": "nothing listens there",
    "Name or service not known": "no such host",
    "Temporary failure in name resolution": "no such host",
}


def _client(endpoint: Endpoint, seconds: float) -> Api:
    from docker import APIClient
    from docker.tls import TLSConfig

    url = dial.local(endpoint.url) if endpoint.url.startswith("ssh://") else endpoint.url
    tls: Any = False
    if endpoint.tls is not None:
        ours = endpoint.tls
        pair = (str(ours.cert), str(ours.key)) if ours.cert is not None else None
        tls = TLSConfig(client_cert=pair, ca_cert=str(ours.ca) if ours.ca else None, verify=ours.verify)

    class Client(APIClient):
        """REQUESTS_CA_BUNDLE is about the web; it must not take the place of the engine's own authority."""

        def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
            known = self.verify if verify is None else verify
            return super().merge_environment_settings(url, proxies, stream, known, cert)

    return Client(base_url=url, tls=tls, timeout=int(seconds), max_pool_size=CALLS)


class Engine:
    """One engine. Every method blocks its own thread, not the loop; whatever goes wrong there is an InfraError."""

    def __init__(self) -> None:
        self.owed: set[str] = set()  # containers that must go, tried again with every removal
        self._api: Api = None
        self._endpoint: Endpoint | None = None
        self._limiter: anyio.CapacityLimiter | None = None

    async def open(self) -> None:
        """Connect once. Raises MissingEnvironmentError."""
        if self._api is None:
            self._endpoint, self._api = await anyio.to_thread.run_sync(_connect, CALL_S)
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
            result.append(await anyio.to_thread.run_sync(self._judged, what, work, limiter=self._limiter))
        return result[0]

    async def answers(self) -> bool:
        """Whether it answers now."""
        with anyio.move_on_after(PING_S):
            return await anyio.to_thread.run_sync(self._pings, abandon_on_cancel=True)
        return False

    async def _back(self) -> None:
        deadline = anyio.current_time() + AWAY_S
        while not await self.answers():
            if anyio.current_time() > deadline:
                raise InfraError(f"the docker engine did not answer for {AWAY_S:g} s")
            await anyio.sleep(0.25)

    def _pings(self) -> bool:
        from docker.errors import DockerException

        try:
            return self._served() and bool(self._api.ping())
        except (DockerException, OSError):
            return False

    def _judged(self, what: str, work: Callable[[Api], _T]) -> _T:
        from docker.errors import DockerException

        if not self._served():
            raise InfraError(f"docker could not {what}: nothing listens where the engine was")
        try:
            return work(self._api)
        except (DockerException, OSError) as error:  # requests' errors are OSErrors
            raise InfraError(f"docker could not {what}: {str(error)[:400]}") from error

    def _served(self) -> bool:
        return self._endpoint is None or self._endpoint.served()


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
    ours, theirs = socket.socketpair()  # TLS: a thread carries between that and a plain pair
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
        response = getattr(remote, "_response", None)  # its own hold on the socket
        if response is not None:
            response.close()
        remote.close()
