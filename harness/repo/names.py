"""Which names may come through the door: plain relative paths that mean the same on every file system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

NAME_BYTES = 255
PATH_BYTES = 1024

# drawn as nothing although their category says letter or mark
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3])( *\..*)?", re.IGNORECASE)
# what git, HFS+ or NTFS take for .git or .gitmodules, 8.3 names and alternate streams included
_GIT = re.compile(r"(\.git|git~\d+)(:.*)?", re.IGNORECASE)
_MODULES = re.compile(r"(\.gitmodules|gitmod~\d+|gi7eba~\d+)(:.*)?", re.IGNORECASE)

_PART_FLAWS: tuple[tuple[Callable[[str], object], str], ...] = (
    (lambda part: part in ("", ".", ".."), "a path with an empty, '.' or '..' part"),
    (lambda part: len(part.encode()) > NAME_BYTES, f"a name longer than {NAME_BYTES} bytes"),
    (lambda part: "\\" in part, "a backslash in a name"),
    (lambda part: any(map(_hidden, part)), "a control, bidirectional or invisible character in a name"),
    (lambda part: unicodedata.normalize("NFC", part) != part, "a name that is not in Unicode form NFC"),
    (lambda part: part != part.strip() or part.endswith("."), "a name with a space at an end, or a dot at its end"),
    (_GIT.fullmatch, "a name that is git's own folder"),
    (_MODULES.fullmatch, "a name that is git's list of submodules"),
)


def flaw(path: bytes, *, depth: int) -> str | None:
    """What is wrong with a path, in words; None when it is clean. Names the first fault only."""
    if len(path) > PATH_BYTES:
        return f"a path longer than {PATH_BYTES} bytes"
    try:
        parts = path.decode().split("/")
    except UnicodeDecodeError:
        return "a name that is not UTF-8"
    if path.startswith(b"/"):
        return "an absolute path"
    if len(parts) > depth:
        return f"nested deeper than {depth}"
    return next((what for part in parts for is_flawed, what in _PART_FLAWS if is_flawed(part)), None)


def oddity(path: str) -> str | None:
    """What a clean path would be elsewhere than here, in words: an option of a command, a device on Windows.

    A subject may have such files; a candidate has no need of new ones.
    """
    for part in path.split("/"):
        if part.startswith(("-", "~")):
            return "a name that commands take for an option or a home folder"
        if _DEVICE.fullmatch(part):
            return "a name that is a device on Windows"
        if any(char in '<>:"|?*' for char in part):
            return "a name with a character that shells or Windows give a meaning to"
    return None


def folded(path: str) -> str:
    """Equal for two paths that some file system would take for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _hidden(char: str) -> bool:
    return not (char == " " or char.isprintable()) or _INVISIBLE.match(char) is not None
