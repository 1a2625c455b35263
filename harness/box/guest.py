"""The guest programs as bytes that a back end puts into its boxes: compiled once here, so that no box compiles them."""

from __future__ import annotations

import importlib.util
import marshal
import os
from collections.abc import Mapping
from functools import cache

from harness.resources import resource

FOLDER = "/run/guest"
ENTRY_POINT = f"{FOLDER}/worker.pyc"
_MODULES = ("frames", "sweep", "sockets", "fifos", "watch", "files", "relay", "start", "run", "warm", "serve")
_UNCHECKED_HASH = (1).to_bytes(4, "little") + bytes(8)


@cache
def guest_files() -> Mapping[str, bytes]:
    """{path in the box: bytes} of the worker's byte code, for this interpreter, and the few files of a box's /etc."""
    guest = resource("sandbox") / "guest"
    files: dict[str, bytes] = {}
    for path in sorted(guest.glob("*.py")):
        code = compile(path.read_bytes(), f"{FOLDER}/{path.name}", "exec", dont_inherit=True)
        compiled = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + marshal.dumps(code)
        files[f"{FOLDER}/{path.stem}.pyc"] = compiled
    for path in sorted((guest / "etc").iterdir()):
        files[f"/etc/{path.name}"] = path.read_bytes()
    return files


@cache
def guest_sources() -> Mapping[str, bytes]:
    """{module: source} of the worker, each after those that it imports."""
    guest = resource("sandbox") / "guest"
    return {name: (guest / f"{name}.py").read_bytes() for name in _MODULES}


def held(data: bytes) -> int:
    """`data` behind a descriptor of its own, at its start; the caller closes it."""
    descriptor = os.memfd_create("strop", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
