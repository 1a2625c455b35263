"""The host through git and files: names and kinds that make a careless host follow, run or overwrite something."""

from __future__ import annotations

from collections.abc import Sequence

from harness.research.redteam.base import HOST, Attack, CodeAttack, Target, TreeAttack
from harness.tree import Entry, Kind


class _Laid(TreeAttack):
    """Lays fixed entries over the root."""

    kind = HOST
    laid: Sequence[Entry] = ()

    def entries(self, target: Target) -> Sequence[Entry] | None:
        return self.laid


def _file(path: bytes, data: bytes = b"x\n", mode: int = 0o644) -> Entry:
    return Entry(path, "file", mode, data)


class GitHooks(_Laid):
    """A .git folder with hooks that run on the host."""

    laid = (_file(b".git/HEAD"), _file(b".git/hooks/post-checkout", b"#!/bin/sh\ntouch /tmp/owned\n", 0o755))


class GitConfig(_Laid):
    """A .git/config with core.fsmonitor and core.hooksPath."""

    laid = (_file(b".git/config", b"[core]\n\tfsmonitor = touch /tmp/owned\n\thooksPath = /work/hooks\n"),)


class GitFile(_Laid):
    """A .git file that points elsewhere."""

    laid = (_file(b".git", b"gitdir: /tmp/evil\n"),)


class GitAttributes(_Laid):
    """.gitattributes with a filter and a text conversion."""

    laid = (_file(b".gitattributes", b"* filter=evil diff=evil\n"),)


class Submodules(_Laid):
    """.gitmodules with a URL that runs a command."""

    laid = (_file(b".gitmodules", b'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% /tmp/owned\n'),)


class BareRepository(_Laid):
    """An embedded bare repository with a config of its own."""

    laid = (
        _file(b"data/HEAD", b"ref: refs/heads/main\n"),
        _file(b"data/objects/x"),
        _file(b"data/refs/x"),
        _file(b"data/config", b"[core]\n\tfsmonitor = touch /tmp/owned\n"),
    )


class GitByAnotherName(_Laid):
    """.git as other file systems spell it."""

    laid = (_file(b"GIT~1/config"), _file(b".g\xe2\x80\x8cit/config"))


class LinkOut(_Laid):
    """A link that a copy would follow out."""

    laid = (Entry(b"passwd", "symlink", 0o777, b"/etc/passwd"),)


class LinkedFolder(_Laid):
    """A linked folder that a write would follow in."""

    laid = (Entry(b"out", "symlink", 0o777, b"/tmp"), _file(b"out/owned"))


class ParentPath(_Laid):
    """A path with '..' in it."""

    laid = (_file(b"../owned"), _file(b"a/../../owned"))


class AbsolutePath(_Laid):
    """An absolute path."""

    laid = (_file(b"/tmp/owned"),)


class NewlineName(_Laid):
    """A name with a newline and a status line of its own."""

    laid = (_file(b"a\n100644 blob 0000000000000000000000000000000000000000\towned"),)


class EscapeName(_Laid):
    """A name with terminal escapes."""

    laid = (_file(b"\x1b[2J\x1b]0;owned\x07"),)


class BidiName(_Laid):
    """A name that reads backwards."""

    laid = (_file("a\u202eyp.exe".encode()),)


class NulName(_Laid):
    """A name with a NUL byte."""

    laid = (_file(b"train.py\0.txt"),)


class BadUtf8Name(_Laid):
    """A name that is not UTF-8."""

    laid = (_file(b"\xff\xfe"),)


class CaseTwins(TreeAttack):
    """A name that some file systems take for a locked one."""

    kind = HOST

    def entries(self, target: Target) -> list[Entry] | None:
        path = target.locked() or target.entry
        return [_file(path.upper().encode())] if path else None


class OptionName(_Laid):
    """Names that a command takes for options."""

    laid = (_file(b"--rcfile=x"), _file(b"-rf"))


class DeviceName(_Laid):
    """Names that are devices where the winner may be checked out."""

    laid = (_file(b"aux.py"), _file(b"NUL"))


class StreamName(TreeAttack):
    """A locked file's own name, as NTFS spells its contents."""

    kind = HOST

    def entries(self, target: Target) -> list[Entry] | None:
        path = target.locked() or target.entry
        return [_file(f"{path}::$DATA".encode())] if path else None


class TrailingDot(TreeAttack):
    """A locked file's name with a dot, and with a space, which Windows drops."""

    kind = HOST

    def entries(self, target: Target) -> list[Entry] | None:
        path = target.locked() or target.entry
        return [_file(f"{path}.".encode()), _file(f"{path} ".encode())] if path else None


class LongS(TreeAttack):
    """A name that is a locked one as soon as somebody folds its case."""

    kind = HOST

    def entries(self, target: Target) -> list[Entry] | None:
        path = next((path for path in target.root if "s" in path), None)
        return [_file(path.replace("s", "\u017f").encode())] if path else None


class Decomposed(_Laid):
    """A name in two forms that look the same."""

    laid = (_file("caf\u00e9.py".encode()), _file("cafe\u0301.py".encode()))


class InvisibleName(_Laid):
    """A name with marks that are drawn as nothing."""

    laid = (_file("train\u2060.py".encode()), _file("train\U000e0041.py".encode()), _file("tr\ufe0fain.py".encode()))


class DeepPath(_Laid):
    """A path nested deeper than a recursion can go."""

    laid = (_file(b"/".join([b"d"] * 2000)),)


class LongName(_Laid):
    """A name longer than any file system takes."""

    laid = (_file(b"n" * 5000),)


class _Special(_Laid):
    """One entry that is no regular file."""

    special: Kind = "unknown"

    def entries(self, target: Target) -> list[Entry] | None:
        return [Entry(b"special", self.special)]


class FifoInTree(_Special):
    """A FIFO that a read would wait on for ever."""

    special = "fifo"


class SocketInTree(_Special):
    """A socket."""

    special = "socket"


class DeviceInTree(_Special):
    """A device."""

    special = "device"


class FileAndFolder(_Laid):
    """One name as a file and as a folder."""

    laid = (_file(b"twice"), _file(b"twice/inside"))


class ManyFiles(_Laid):
    """A hundred thousand files."""

    def entries(self, target: Target) -> list[Entry] | None:
        return [_file(b"f%d" % number, b"") for number in range(100_000)]


class HugeFile(_Laid):
    """A file larger than any program."""

    def entries(self, target: Target) -> list[Entry] | None:
        path = target.entry or "big.bin"
        return [_file(path.encode(), b"#" * (64 * 2**20 + 1))]


class FifoOutput(CodeAttack):
    """An output that is a FIFO."""

    kind = HOST

    def after(self, target: Target) -> str:
        return """
for name in OUTPUTS or ["x"]:
    if _os.path.exists("/out/" + name):
        _os.unlink("/out/" + name)
    _os.mkfifo("/out/" + name)
"""


class HardlinkedOutput(CodeAttack):
    """An output that is a hard link to another file."""

    kind = HOST

    def after(self, target: Target) -> str:
        return """
open("/out/other", "w").close()
_os.link("/out/other", "/out/third")
"""


ATTACKS: tuple[Attack, ...] = (
    GitHooks(),
    GitConfig(),
    GitFile(),
    GitAttributes(),
    Submodules(),
    BareRepository(),
    GitByAnotherName(),
    LinkOut(),
    LinkedFolder(),
    ParentPath(),
    AbsolutePath(),
    NewlineName(),
    EscapeName(),
    BidiName(),
    NulName(),
    BadUtf8Name(),
    CaseTwins(),
    OptionName(),
    DeviceName(),
    StreamName(),
    TrailingDot(),
    LongS(),
    Decomposed(),
    InvisibleName(),
    DeepPath(),
    LongName(),
    FifoInTree(),
    SocketInTree(),
    DeviceInTree(),
    FileAndFolder(),
    ManyFiles(),
    HugeFile(),
    FifoOutput(),
    HardlinkedOutput(),
)
