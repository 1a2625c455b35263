"""Which process opened a box, as a short token that everything of the box carries, and whether that process lives.

A token is digests of the boot, the process-id namespace, and the process (its number and start time), so that a
number used again is not mistaken and a box that sees its own token learns nothing. A process of another namespace or
boot cannot be judged from here.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

LABEL = "STROP_HOST"
TOKEN = re.compile(r"[0-9a-f]{8}\.[0-9a-f]{8}\.[0-9a-f]{12}")


class Scope(NamedTuple):
    """The boot and the process-id namespace that process numbers of a token belong to."""

    boot: str
    namespace: str


@cache
def scope() -> Scope:
    """Ours."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = namespace = ""
    return Scope(_digest(boot, 8), _digest(namespace, 8))


def token() -> str:
    """The token of this process."""
    return _token(os.getpid())


@cache
def _token(pid: int) -> str:
    return f"{scope().boot}.{scope().namespace}.{_process(pid, _started(pid))}"


def living() -> frozenset[str]:
    """Tokens of every process that can be seen from here; zombies are dead."""
    found: set[str] = set()
    head = f"{scope().boot}.{scope().namespace}."
    for name in os.listdir("/proc"):  # noqa: PTH208 - quick, and nothing stays open
        if name.isdigit() and (started := _started(int(name))):
            found.add(head + _process(int(name), started))
    return frozenset(found)


def dead(token: str, alive: frozenset[str]) -> bool:
    """Whether the process of `token` is certainly gone, by what `living` said: one of another boot is, one of another
    namespace is not."""
    boot, namespace, _ = token.split(".")
    return boot != scope().boot or (namespace == scope().namespace and token not in alive)


def dead_here(token: str, alive: frozenset[str]) -> bool:
    """As `dead`, for things that another machine may have made: its boot says nothing to us."""
    return token.startswith(scope().boot) and dead(token, alive)


def _started(pid: int) -> str:
    """When a process started, in ticks since boot; empty when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - read for every process of the machine
            fields = file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return "" if fields[0] in {b"Z", b"X"} else fields[19].decode()


def _process(pid: int, started: str) -> str:
    return _digest(f"{pid} {started}", 12)


def _digest(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:size]
