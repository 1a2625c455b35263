"""Where the docker engine is, found as the docker client finds it, without importing any of docker.

DOCKER_HOST first, then the context that DOCKER_CONTEXT or the client's config.json names: what is named is used or the
run stops, and never another engine in its place. With nothing named, the sockets of the system, of a rootless engine
and of Docker Desktop are tried in this order.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from harness.errors import MissingEnvironmentError

PATIENCE_S = 5.0
_UNIX = "unix://"


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files for TLS. `verify` is False where the user asked that the engine not be checked."""

    ca: Path | None
    cert: Path | None
    key: Path | None
    verify: bool


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One engine's address, who named it, and how TLS is spoken with it."""

    url: str
    named_by: str
    tls: Certificates | None = None

    def served(self) -> bool:
        """False for a Unix socket that nobody serves: the docker SDK would leave its own attempt to the collector."""
        return self._knock() == 0

    def denied(self) -> bool:
        """Whether it is a Unix socket that this user may not use."""
        return self._knock() in {errno.EACCES, errno.EPERM}

    def _knock(self) -> int:
        """The errno of connecting to a Unix socket; 0 for any other address."""
        if not self.url.startswith(_UNIX):
            return 0
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(PATIENCE_S)
            return door.connect_ex(self.url.removeprefix(_UNIX))


def endpoints() -> list[Endpoint]:
    """The engines that may be meant, the one to try first first. Raises MissingEnvironmentError for a context that
    cannot be read."""
    host = os.environ.get("DOCKER_HOST", "")
    if host:
        return [Endpoint(host, "DOCKER_HOST", _from_environment())]
    name = os.environ.get("DOCKER_CONTEXT", "") or _current_context()
    if name not in {"", "default"}:
        return [_context(name)]
    return [Endpoint(url, "a socket") for url in sockets()]


def sockets() -> list[str]:
    """Where engines listen that nothing names: the system's, rootless, Docker Desktop."""
    found = [f"{_UNIX}{place}" for place in _places() if os.access(place, os.R_OK | os.W_OK)]
    return [url for url in found if Endpoint(url, "").served()]


def locked() -> list[str]:
    """Those of these places where a socket is that this user may not use."""
    return [url for url in (f"{_UNIX}{place}" for place in _places()) if Endpoint(url, "").denied()]


def _places() -> list[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    home = Path.home()
    places = [Path("/var/run/docker.sock"), Path(runtime) / "docker.sock"]
    return [*places, home / ".docker/run/docker.sock", home / ".docker/desktop/docker.sock"]


def _config() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _from_environment() -> Certificates | None:
    """DOCKER_TLS_VERIFY counts as set unless it is empty; DOCKER_CERT_PATH alone speaks TLS without checking."""
    folder, verify = os.environ.get("DOCKER_CERT_PATH", ""), bool(os.environ.get("DOCKER_TLS_VERIFY"))
    if not folder and not verify:
        return None
    return _certificates(Path(folder) if folder else _config(), verify=verify)


def _certificates(folder: Path, *, verify: bool) -> Certificates:
    ca, cert, key = (folder / f"{name}.pem" for name in ("ca", "cert", "key"))
    whole = cert.is_file() and key.is_file()
    return Certificates(ca if ca.is_file() else None, cert if whole else None, key if whole else None, verify)


def _current_context() -> str:
    file = _config() / "config.json"
    if not file.is_file():
        return ""
    name = _read(file).get("currentContext", "")
    return name if isinstance(name, str) else ""


def _context(name: str) -> Endpoint:
    mark = hashlib.sha256(name.encode()).hexdigest()
    file = _config() / "contexts" / "meta" / mark / "meta.json"
    if not file.is_file():
        raise _unusable(f"the context {name!r} is not there")
    told = _read(file).get("Endpoints")
    endpoint = cast("dict[str, Any]", told).get("docker") if isinstance(told, dict) else None
    host = cast("dict[str, Any]", endpoint).get("Host") if isinstance(endpoint, dict) else None
    if not isinstance(host, str) or not host:
        raise _unusable(f"the context {name!r} names no docker engine")
    folder = _config() / "contexts" / "tls" / mark / "docker"
    checked = not cast("dict[str, Any]", endpoint).get("SkipTLSVerify", False)
    return Endpoint(host, f"the context {name!r}", _certificates(folder, verify=checked) if folder.is_dir() else None)


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unusable(f"{file} cannot be read: {error}") from None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _unusable(reason: str) -> MissingEnvironmentError:
    mend = "`docker context use default`, or set DOCKER_HOST to where the engine is"
    return MissingEnvironmentError("docker", reason=reason, mend=mend)
