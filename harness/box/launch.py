"""Run as root, in a process of its own, before bubblewrap: binds every source to a readable place in a private mount
namespace, drops to an unprivileged uid, then becomes bubblewrap.

`launch.py UID COUNT SOURCE... -- PROGRAM ARGS...`: source number k is at `PLACE/k` afterwards. Stdlib only; started
with `-I -S -E`.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys

PLACE = "/tmp"  # noqa: S108 - hidden under a tmpfs in this process's own namespace only
_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18


def main(arguments: list[str]) -> None:
    """Does not return."""
    uid, count = int(arguments[0]), int(arguments[1])
    sources, command = arguments[2 : 2 + count], arguments[3 + count :]
    libc = ctypes.CDLL(None, use_errno=True)
    _must(libc.unshare(_CLONE_NEWNS), "unshare")
    _mount(libc, "none", "/", flags=_MS_REC | _MS_PRIVATE)
    # Held open first: a source may lie below the place that is about to be covered.
    held = [os.open(source, os.O_PATH) for source in sources]
    _mount(libc, "tmpfs", PLACE, kind="tmpfs", data="mode=755,size=1m")
    for number, (source, descriptor) in enumerate(zip(sources, held, strict=True)):
        at = f"{PLACE}/{number}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(at)  # noqa: PTH102 - pathlib costs 9 ms a box
        else:
            os.close(os.open(at, os.O_CREAT, 0o644))
        _mount(libc, f"/proc/self/fd/{descriptor}", at, flags=_MS_BIND | _MS_REC, name=source)
        os.close(descriptor)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.chdir("/")
    os.execve(command[0], command, {})  # noqa: S606 - the whole point


def _mount(
    libc: ctypes.CDLL, source: str, at: str, *, kind: str | None = None, flags: int = 0, data: str = "", name: str = ""
) -> None:
    encoded = [part.encode() if part is not None else None for part in (source, at, kind, data)]
    result = libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _must(result, f"mount {name or source} on {at}")


def _must(result: int, what: str) -> None:
    if result != 0:
        sys.exit(f"launch: {what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"launch: {error}")
