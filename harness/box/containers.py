"""Removes what boxes of dead hosts left with a docker engine.

A look at a local engine is one request over its socket, without the SDK, so that every command can begin with it; the
SDK is imported only where something is to be removed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import quote

from harness.box import engine, host
from harness.box.endpoint import endpoints
from harness.box.engine import Api
from harness.errors import MissingEnvironmentError

OWNER_LABEL, HOST_LABEL = "strop.owner", "strop.host"
LOOK_S = 1.0
_UNIX = "unix://"


def sweep_containers() -> int:
    """Remove the containers of dead hosts that a local engine has; how many. Blocks, a second at most when there are
    none. Never fails: an engine that is not there or does not answer is left alone."""
    try:
        if not any(found.url.startswith(_UNIX) and _some(found.url.removeprefix(_UNIX)) for found in endpoints()):
            return 0
        with contextlib.closing(engine.connect(engine.PING_S)) as api:
            return reap_containers(api, [])
    except (MissingEnvironmentError, OSError, http.client.HTTPException, ValueError):
        return 0


def reap_containers(api: Api, owners: Sequence[str]) -> int:
    """Remove the containers of `owners` and those whose host process is dead. Blocks."""
    gone, alive = 0, host.living()
    for found in api.containers(all=True, filters={"label": HOST_LABEL}):
        labels: dict[str, str] = found.get("Labels") or {}
        token = labels.get(HOST_LABEL, "")
        judged = host.TOKEN.fullmatch(token) is not None and host.dead_here(token, alive)
        if labels.get(OWNER_LABEL) in owners or judged:
            with contextlib.suppress(OSError):  # the SDK's errors are; one that cannot go must not keep the others
                gone += engine.remove(api, found["Id"])
    return gone


class _Door(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=LOOK_S)
        self._path = path

    def connect(self) -> None:
        door = socket.socket(socket.AF_UNIX)
        door.settimeout(LOOK_S)
        self.sock = door  # closed with this connection, also when nobody listens
        door.connect(self._path)


def _some(path: str) -> bool:
    """Whether the engine at `path` has a container of any host of ours that is dead."""
    with contextlib.closing(_Door(path)) as door:
        door.request("GET", f"/containers/json?all=1&filters={quote(json.dumps({'label': [HOST_LABEL]}))}")
        answer = door.getresponse()
        body = answer.read()
    found = cast("list[dict[str, Any]]", json.loads(body)) if answer.status == http.client.OK else []
    labels = [cast("dict[str, str]", one.get("Labels") or {}) for one in found]
    tokens = [known.get(HOST_LABEL, "") for known in labels]
    alive = host.living() if tokens else frozenset[str]()
    return any(host.TOKEN.fullmatch(token) is not None and host.dead_here(token, alive) for token in tokens)
