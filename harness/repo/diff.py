"""How two trees differ: as text for people, as a patch for `git apply`, as a number for the simplicity rule."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator

from harness.repo.lines import Change, changes, split
from harness.repo.objects import object_id
from harness.tree import File, Tree
from harness.untrusted import clean

CONTEXT = 3
CHARACTERS = 200_000

_NOTHING = "0" * 40
_LINE_BYTES = 52


def unified(old: Tree, new: Tree, *, limit: int = CHARACTERS) -> str:
    """The difference for people: encoded, binary files only named, cut in the middle beyond `limit` characters."""
    return clean(b"".join(_patches(old, new, binary=False)).decode("utf-8", "backslashreplace"), limit)


def patch(old: Tree, new: Tree) -> bytes:
    """The exact difference; `git apply` turns `old` into `new` with it. Empty when they are equal."""
    return b"".join(_patches(old, new, binary=True))


def changed_lines(old: Tree, new: Tree) -> int:
    """Lines removed plus lines added; a changed mode counts one, a binary file one line for every 64 bytes of it."""
    return sum(_count(before, after) for _, before, after in _differing(old, new))


def is_binary(data: bytes) -> bool:
    """Whether the bytes are no text: a NUL anywhere."""
    return b"\0" in data


def _differing(old: Tree, new: Tree) -> Iterator[tuple[str, File | None, File | None]]:
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before != after:
            yield path, before, after


def _count(before: File | None, after: File | None) -> int:
    was, now = _data(before), _data(after)
    modes = int(before is not None and after is not None and before.executable != after.executable)
    if is_binary(was) or is_binary(now):
        return modes + (max(1, max(len(was), len(now)) // 64) if was != now else 0)
    found = changes(split(was), split(now))
    lines = sum(one.old_end - one.old_start + one.new_end - one.new_start for one in found)
    return modes + (lines or int(before is None or after is None))


def _patches(old: Tree, new: Tree, *, binary: bool) -> Iterator[bytes]:
    for path, before, after in _differing(old, new):
        yield from _header(path, before, after)
        was, now = _data(before), _data(after)
        if was == now:
            continue
        if not (is_binary(was) or is_binary(now)):
            yield from _text(path, before, after)
        elif binary:
            yield b"GIT binary patch\n" + _literal(now) + _literal(was)
        else:
            yield f"binary: {len(was)} bytes -> {len(now)} bytes\n".encode()


def _header(path: str, before: File | None, after: File | None) -> Iterator[bytes]:
    yield b"diff --git %s %s\n" % (_quoted("a/" + path), _quoted("b/" + path))
    if before is None:
        yield b"new file mode %s\n" % _mode(after)
    elif after is None:
        yield b"deleted file mode %s\n" % _mode(before)
    elif before.executable != after.executable:
        yield b"old mode %s\nnew mode %s\n" % (_mode(before), _mode(after))
    if _data(before) != _data(after) or before is None or after is None:
        ids = [_NOTHING if file is None else object_id("blob", file.data) for file in (before, after)]
        same_mode = before is not None and after is not None and before.executable == after.executable
        yield f"index {ids[0]}..{ids[1]}".encode() + (b" " + _mode(after) if same_mode else b"") + b"\n"


def _text(path: str, before: File | None, after: File | None) -> Iterator[bytes]:
    # a name with a space needs a tab after it, or what follows could be taken for a date
    end = b"\t\n" if " " in path else b"\n"
    yield b"--- " + (b"/dev/null\n" if before is None else _quoted("a/" + path) + end)
    yield b"+++ " + (b"/dev/null\n" if after is None else _quoted("b/" + path) + end)
    old, new = split(_data(before)), split(_data(after))
    for group in _grouped(changes(old, new)):
        yield from _hunk(group, old, new)


def _grouped(found: list[Change]) -> Iterator[list[Change]]:
    group: list[Change] = []
    for change in found:
        if group and change.old_start - group[-1].old_end > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(group: list[Change], old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    first, last = group[0], group[-1]
    lead = min(CONTEXT, first.old_start)
    trail = min(CONTEXT, len(old) - last.old_end)
    old_start, old_end = first.old_start - lead, last.old_end + trail
    new_start, new_end = first.new_start - lead, last.new_end + trail
    yield b"@@ -%s +%s @@\n" % (_range(old_start, old_end), _range(new_start, new_end))
    at = old_start
    for change in group:
        yield from (_line(b" ", line) for line in old[at : change.old_start])
        yield from (_line(b"-", line) for line in old[change.old_start : change.old_end])
        yield from (_line(b"+", line) for line in new[change.new_start : change.new_end])
        at = change.old_end
    yield from (_line(b" ", line) for line in old[at:old_end])


def _range(start: int, end: int) -> bytes:
    count = end - start
    first = start + 1 if count else start
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"


def _literal(data: bytes) -> bytes:
    """git's binary literal: deflated, base 85, each line led by its length as a letter."""
    packed = zlib.compress(data)
    rows = [b"literal %d\n" % len(data)]
    for start in range(0, len(packed), _LINE_BYTES):
        chunk = packed[start : start + _LINE_BYTES]
        size = len(chunk)
        letter = bytes([ord("A") + size - 1 if size <= 26 else ord("a") + size - 27])
        rows.append(letter + base64.b85encode(chunk, pad=True) + b"\n")
    return b"".join(rows) + b"\n"


def _quoted(path: str) -> bytes:
    """As git writes names: in C quotes with octal escapes when they are more than plain ASCII."""
    raw = path.encode()
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in raw):
        return raw
    plain = {ord('"'): b'\\"', ord("\\"): b"\\\\"}
    escaped = [plain.get(byte) or (bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte) for byte in raw]
    return b'"' + b"".join(escaped) + b'"'


def _mode(file: File | None) -> bytes:
    return b"100755" if file is not None and file.executable else b"100644"


def _data(file: File | None) -> bytes:
    return b"" if file is None else file.data
