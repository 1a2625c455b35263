"""Byte code of Python's modules, for boxes that are read-only: without it every start compiles the library again.

Timestamps, not hashes: the layers of an image keep the times of files, and a module that somebody changes in an image
of their own is compiled again instead of running as it was.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import warnings
from pathlib import Path

from harness.box.base import Boxes, BoxSpec, Command

_HEAD = 16
_BY_HASH = (1, 3)  # PEP 552: unchecked, checked
_SELDOM = {"test", "tests", "idlelib", "lib2to3", "turtledemo"}  # of the library and of packages; half as much again
_DEADLINE_S = 30.0
_LOOK = """
import subprocess, sys
told = subprocess.run([sys.executable, "-v", "-c", "import argparse, json, random, subprocess"], capture_output=True)
found = [line for line in told.stderr.split(b"\\n") if line.startswith(b"# code object from")]
print(sum(not line.endswith(b".pyc'") for line in found), len(found))
"""


def cache_of(source: str) -> tuple[str, bytes] | None:
    """(path, content) of the byte code of the module `source`, for this Python: what lies there where Python would use
    it, else made now. None for what does not compile, and for tests, which few candidates import."""
    path = Path(source)
    if not source.endswith(".py") or _SELDOM.intersection(path.parts):
        return None
    try:
        cache = importlib.util.cache_from_source(source)
        return cache, _kept(path, Path(cache)) or _made(path)
    except (OSError, SyntaxError, ValueError, RecursionError, NotImplementedError):
        return None


def _kept(source: Path, cache: Path) -> bytes:
    """The content of `cache`, empty where Python would not use it."""
    try:
        data = cache.read_bytes()
        flags = int.from_bytes(data[4:8], "little")
        if data[:4] != importlib.util.MAGIC_NUMBER or len(data) <= _HEAD:
            return b""
        if flags in _BY_HASH:
            current = data[8:_HEAD] == importlib.util.source_hash(source.read_bytes())
        else:
            current = flags == 0 and data[8:_HEAD] == _stamp(source)
        return data if current and marshal.loads(data[_HEAD:]) else b""  # noqa: S302 - what this Python itself would load
    except (OSError, EOFError, ValueError, TypeError):
        return b""


def _made(source: Path) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of somebody else's code
        code = compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + bytes(4) + _stamp(source) + marshal.dumps(code)


def _stamp(source: Path) -> bytes:
    told = os.stat(source)  # noqa: PTH116 - follows links, as the import does
    return b"".join((int(value) & 0xFFFFFFFF).to_bytes(4, "little") for value in (told.st_mtime, told.st_size))


async def missing(boxes: Boxes) -> str:
    """Why Python starts slowly in such a box, in a few words; empty where byte code is used."""
    async with boxes.open(BoxSpec(owner="bytecode")) as box:
        done = await box.exec(Command(("python", "-c", _LOOK), deadline_s=_DEADLINE_S))
    words = done.stdout.split()
    if done.exit_code or len(words) != 2 or words[0] == b"0":
        return ""
    return f"{int(words[0])} of {int(words[1])} modules are compiled again at every start"
