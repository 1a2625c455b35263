"""Unified diffs as models write them: line numbers are not believed, the lines themselves are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_HEAD = re.compile(r"^--- (?P<old>[^\n]+)\n\+\+\+ (?P<new>[^\n]+)\n(?=@@)", re.M)
_HUNK = re.compile(r"^@@[^\n]*\n?", re.M)
_SIGNED = re.compile(r"^(?P<old>(?:-[^\n]*\n)+)(?P<new>(?:\+[^\n]*\n)+)", re.M)
NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines to find and the lines to put there."""

    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """The hunks of one file. `old` and `new` are the names as written, empty for /dev/null."""

    old: str
    new: str
    hunks: tuple[Hunk, ...] = field(default=())

    @property
    def removes(self) -> bool:
        """Whether the whole file goes."""
        return not self.new


def is_diff(text: str) -> bool:
    """Whether a diff with its header is somewhere in `text`."""
    return _HEAD.search(text) is not None


def patches(text: str) -> Iterator[Patch]:
    """Every file's part of the diffs in `text`."""
    heads = list(_HEAD.finditer(text))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : following.start() if following else len(text)]
        body = re.split(r"^(?:```|~~~|diff --git )", body, maxsplit=1, flags=re.M)[0]
        yield Patch(_name(head["old"]), _name(head["new"]), tuple(_hunks(body)))


def signed(text: str) -> Iterator[tuple[int, str, str]]:
    """(where it starts, lines to find, lines to put there) of minus and plus lines that no diff's header announces."""
    for match in _SIGNED.finditer(text):
        rows = [row[1:] for row in match[0].splitlines()]
        # a diff has nothing between the sign and the line, a small model often a blank
        apart = all(row.startswith(" ") for row in rows if row.strip())
        old, new = (
            "".join(f"{row[1:].removeprefix(' ') if apart else row[1:]}\n" for row in match[name].splitlines())
            for name in ("old", "new")
        )
        yield match.start(), old, new


def _name(text: str) -> str:
    name = text.partition("\t")[0].strip()
    return "" if name == NOWHERE else name


def _hunks(body: str) -> Iterator[Hunk]:
    for part in _HUNK.split(body)[1:]:
        rows = part.rstrip("\n").split("\n") if part.strip("\n") else []
        old = [row[1:] for row in rows if row[:1] in {" ", "-", ""}]
        new = [row[1:] for row in rows if row[:1] in {" ", "+", ""}]
        if old or new:
            yield Hunk(tuple(old), tuple(new))


def applied(patch: Patch, text: str) -> str:
    """`text` with every hunk made, in order. Raises ValueError for one whose lines are not there."""
    rows = text.split("\n")
    at = 0
    for number, hunk in enumerate(patch.hunks, 1):
        if not any(row.strip() for row in hunk.old):
            if text.strip():
                raise ValueError(f"hunk {number} has no line of the file in it")
            rows[at:at] = hunk.new
            at += len(hunk.new)
            continue
        found = find_lines(rows, hunk.old, at)
        if found is None:
            found = find_lines(rows, hunk.old)
        if found is None:
            raise ValueError(f"the lines of hunk {number} are not in the file; copy them exactly")
        rows[found : found + len(hunk.old)] = hunk.new
        at = found + len(hunk.new)
    return "\n".join(rows)


def find_lines(rows: Sequence[str], wanted: Sequence[str], start: int = 0) -> int | None:
    """Where `wanted` stands in `rows`: exactly, else with trailing blanks left out of account. None unless that is one
    place only."""
    for strip in (False, True):
        have = [row.rstrip() for row in rows] if strip else list(rows)
        want = [row.rstrip() for row in wanted] if strip else list(wanted)
        found = [
            at
            for at in range(start, len(have) - len(want) + 1)
            if have[at] == want[0] and have[at : at + len(want)] == want
        ]
        if len(found) == 1:
            return found[0]
        if found:
            return found[0] if start else None
    return None
