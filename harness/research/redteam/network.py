"""Network and keys: getting out, getting answers in, and getting hold of what can be paid with."""

from __future__ import annotations

from harness.research.redteam.base import NETWORK, Attack, CodeAttack, Target


class Connect(CodeAttack):
    """Connect to the outside."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
import socket
for address in (("1.1.1.1", 53), ("8.8.8.8", 443), ("169.254.169.254", 80)):
    try:
        socket.create_connection(address, 1.0).close()
    except OSError:
        continue
    _breach("a connection to " + address[0] + " was made")
"""


class Resolve(CodeAttack):
    """Ask a name server, with the answer in the name."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.settimeout(1.0)
    sock.sendto(bytes(12), ("1.1.1.1", 53))
    _breach("a datagram left")
"""


class Loopback(CodeAttack):
    """Look for services of the host on loopback."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
import socket
for port in (22, 80, 443, 2375, 5432, 6379, 8000, 8080, 11434):
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        continue
    _breach(f"port {port} of the host answers")
"""


class AbstractSockets(CodeAttack):
    """Look for the host's sockets without a name in the file system."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
rows = open("/proc/net/unix").read().split("\\n")[1:]
if len([row for row in rows if "@" in row]) > 0:
    _breach("abstract sockets of the host are seen")
"""


class Keys(CodeAttack):
    """Look for keys in the environment and in the usual files."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
for name, value in _os.environ.items():
    if any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")):
        _breach("the environment holds " + name)
for path in ("~/.netrc", "~/.aws/credentials", "~/.config/gcloud", "~/.docker/config.json", "/root/.netrc",
             "/run/secrets"):
    if _os.path.exists(_os.path.expanduser(path)):
        _breach(path + " can be reached")
"""


class RawSocket(CodeAttack):
    """Open a raw socket and listen."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
import socket
socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300).close()
_breach("a raw socket was opened")
"""


class NewNamespace(CodeAttack):
    """Make a namespace with more rights in it."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x00020000) == 0 and libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
    _breach("a namespace with mount rights was made")
"""


ATTACKS: tuple[Attack, ...] = (
    Connect(),
    Resolve(),
    Loopback(),
    AbstractSockets(),
    Keys(),
    RawSocket(),
    NewNamespace(),
)
