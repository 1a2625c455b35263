"""An engine behind ssh as a local Unix socket: each connection is one `ssh HOST docker system dial-stdio`.

What the docker client does too. ssh gets the connection itself as its standard streams, so nothing is carried here.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import weakref
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from harness.box import host
from harness.box.reaper import FOLDER_PREFIX
from harness.errors import MissingEnvironmentError


@cache
def local(url: str) -> str:
    """The Unix socket that stands for `url` (ssh://[user@]host[:port]) as long as this process lives."""
    return f"unix://{_Doorway(_words(url)).path}"


def _words(url: str) -> list[str]:
    parts = urlsplit(url)
    program = shutil.which("ssh")
    if program is None:
        raise MissingEnvironmentError("docker", reason=f"{url} needs ssh", mend="install an ssh client")
    if not parts.hostname or parts.hostname.startswith("-"):
        mend = "write it as ssh://user@host:port"
        raise MissingEnvironmentError("docker", reason=f"{url} names no host", mend=mend)
    user = ["-l", parts.username] if parts.username else []
    port = ["-p", str(parts.port)] if parts.port else []
    return [program, *user, *port, "-T", "-o", "BatchMode=yes", "--", parts.hostname, "docker system dial-stdio"]


class _Doorway:
    def __init__(self, words: list[str]) -> None:
        self._words = words
        folder = Path(tempfile.gettempdir()) / f"{FOLDER_PREFIX}ssh-{host.token()}-{secrets.token_hex(4)}"
        folder.mkdir(0o700)  # of the shape that the reaper takes when this process is dead
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = folder / "engine.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        weakref.finalize(self, self._listener.close)
        threading.Thread(target=self._accept, name="strop-ssh", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                door, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._dial, args=(door,), name="strop-ssh-call", daemon=True).start()

    def _dial(self, door: socket.socket) -> None:
        """Until ssh ends; it does when either end of the connection is closed."""
        with door, contextlib.suppress(OSError):
            subprocess.run(  # noqa: S603 - the user's own ssh to the host the user named
                self._words,
                stdin=door.fileno(),
                stdout=door.fileno(),
                stderr=subprocess.DEVNULL,
                check=False,
                start_new_session=True,
            )
