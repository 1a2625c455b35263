"""The harness's own word on an eval that runs beside the candidate: a nonce that only a run to the end gives back.

It stops whatever leaves early or writes afterwards. Code in the same process that looks for the nonce can find it; what
runs beside its own eval can, in the end, write any number.
"""

from __future__ import annotations

import hashlib
import posixpath
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.box.base import EVAL, RESULT, TMP, WORK, Box, Command
from harness.evaluation.result import MAX_BYTES, ResultRefusedError
from harness.evaluation.subject import Subject
from harness.resources import resource
from harness.tree import Entry, File, Tree
from harness.untrusted import line

OWN = ".strop"
_END = b".end"
_FLAGS = frozenset({"-u", "-B", "-O", "-OO", "-E", "-s", "-I", "-P", "-q"})


@dataclass(frozen=True, slots=True)
class Channel:
    """One run's nonce."""

    nonce: str = field(default_factory=lambda: secrets.token_hex(16))

    async def put_programs(self, box: Box, locked: Tree) -> None:
        """Lay the locked files and our own programs into the box, read-only."""
        programs = resource("sandbox") / "eval"
        own = {path.name: path.read_bytes() for path in sorted(programs.glob("*.py"))} | {"pytest.ini": b"[pytest]\n"}
        entries = [Entry(f"{OWN}/{name}".encode(), "file", data=data) for name, data in own.items()]
        await box.put([*locked.entries(), *entries], EVAL, read_only=True)

    def command(self, program: str, words: Sequence[str], command: Command) -> Command:
        """`command` run by one of our programs, with the nonce on standard input."""
        argv = ("python", "-I", "-X", f"pycache_prefix={TMP}/.bytecode", f"{EVAL}/{OWN}/{program}", *words)
        env = {**command.env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if program == "suite.py" else command.env
        return Command(argv, command.deadline_s, command.cwd, env, self.nonce.encode())

    async def result(self, box: Box) -> list[Entry]:
        """What lies in /result, without our own record. Raises ResultRefusedError unless the eval ran to its end and
        the result is what it was then."""
        found = await box.get(RESULT, max_bytes=MAX_BYTES)
        ends = [entry for entry in found if entry.path == _END]
        rest = [entry for entry in found if entry.path != _END]
        if not ends or ends[0].kind != "file":
            raise ResultRefusedError("the eval did not run to its end")
        nonce, _, digest = ends[0].data.decode("ascii", "replace").partition(" ")
        if not secrets.compare_digest(nonce, self.nonce):
            raise ResultRefusedError("the eval's end was told by something else than the eval")
        whole = [entry.data for entry in rest if entry.path == b"result.json"]
        if digest != (hashlib.sha256(whole[0]).hexdigest() if whole else "none"):
            raise ResultRefusedError("the result changed after the eval had ended")
        return rest

    async def check_locked(self, box: Box, locked: Tree) -> None:
        """Raise ResultRefusedError unless the locked files in the box are still what was put there."""
        found = await box.get(EVAL, max_bytes=locked.size + MAX_BYTES)
        files = {
            entry.path.decode("utf-8", "replace"): entry
            for entry in found
            if entry.kind != "dir" and not entry.path.startswith(f"{OWN}/".encode())
        }
        for path in sorted({*files, *locked}):
            entry, file = files.get(path), locked.get(path)
            if entry is None or file is None or not _is_as_put(entry, file):
                raise ResultRefusedError(f"the run changed the locked {line(path, 80)}")


def _is_as_put(entry: Entry, file: File) -> bool:
    """Bytes, mode, kind and number of links: those of a read-only file that nobody touched."""
    mode = 0o555 if file.executable else 0o444
    return (entry.kind, entry.links, entry.mode & 0o777, entry.data) == ("file", 1, mode, file.data)


def script_of(run: Sequence[str]) -> tuple[str, str, list[str]] | None:
    """("script" or "module", its name, its arguments) of a python command that our program can run, else None."""
    if not run or run[0] != "python":
        return None
    words = list(run[1:])
    while words and words[0] in _FLAGS:
        words.pop(0)
    if len(words) > 1 and words[0] == "-m":
        return "module", words[1], words[2:]
    if words and not words[0].startswith("-"):
        return "script", words[0].removeprefix(f"{WORK}/").removeprefix("./"), words[1:]
    return None


def pure_locked(subject: Subject, base: str) -> Tree:
    """The locked files whose top-level name, seen from the folder `base`, holds nothing editable: what may be imported
    from a read-only copy without tearing a package apart."""
    editable = {_top(path, base) for path in subject.root if subject.editable(path)}
    return Tree((path, file) for path, file in subject.root.items() if _top(path, base) not in {*editable, ""})


def own_names(subject: Subject, base: str) -> list[str]:
    """The importable top-level names the subject's root has in the folder `base`."""
    names = {_top(path, base).removesuffix(".py") for path in subject.root}
    return sorted(name for name in names if name.isidentifier())


def _top(path: str, base: str) -> str:
    """The first part of `path` below `base`; empty outside it."""
    clean = posixpath.normpath(base) if base else "."
    if clean == ".":
        return path.split("/", maxsplit=1)[0]
    return path[len(clean) + 1 :].split("/", maxsplit=1)[0] if path.startswith(clean + "/") else ""
