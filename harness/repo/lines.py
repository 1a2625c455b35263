"""Which lines differ, found by Myers' O(ND) greedy algorithm with a bound on D.

E. W. Myers, "An O(ND) difference algorithm and its variations", Algorithmica 1 (1986). Past the bound the whole middle
counts as replaced, so that hostile input costs a bounded time and still gives a correct, if coarse, script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_EDITS = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """Lines `old_start:old_end` of the one text became lines `new_start:new_end` of the other."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def split(data: bytes) -> list[bytes]:
    """Lines with their newline; the last may have none. Only a line feed ends a line."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def changes(old: Sequence[bytes], new: Sequence[bytes]) -> list[Change]:
    """The changes that turn `old` into `new`, in order, none touching the next."""
    head = 0
    while head < len(old) and head < len(new) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    names: dict[bytes, int] = {}
    ours = [names.setdefault(line, len(names)) for line in old[head : len(old) - tail]]
    theirs = [names.setdefault(line, len(names)) for line in new[head : len(new) - tail]]
    if not ours and not theirs:
        return []
    matched = _matches(ours, theirs)
    return _gaps(matched, head, head + len(ours), head + len(theirs))


def _matches(old: list[int], new: list[int]) -> list[tuple[int, int]]:
    """Pairs of equal lines that are kept, in order; none when there are too many edits to look for."""
    if not old or not new or set(old).isdisjoint(new):
        return []
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(len(old) + len(new), MAX_EDITS) + 1):
        trace.append(dict(reach) if edits == 0 else {k: reach[k] for k in range(-edits + 1, edits, 2)})
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            while x < len(old) and x - k < len(new) and old[x] == new[x - k]:
                x += 1
            reach[k] = x
            if x >= len(old) and x - k >= len(new):
                return _walk_back(trace, len(old), len(new))
    return []


def _walk_back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trace) - 1, -1, -1):
        reach, k = trace[edits], x - y
        if edits == 0:
            before_x, before_y = 0, 0
        else:
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            before_x = reach[k + 1] if down else reach[k - 1]
            before_y = before_x - (k + 1 if down else k - 1)
        while x > before_x and y > before_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = before_x, before_y
    pairs.reverse()
    return pairs


def _gaps(matched: list[tuple[int, int]], start: int, old_end: int, new_end: int) -> list[Change]:
    found: list[Change] = []
    at_old = at_new = start
    for old, new in [*((start + x, start + y) for x, y in matched), (old_end, new_end)]:
        if old > at_old or new > at_new:
            found.append(Change(at_old, old, at_new, new))
        at_old, at_new = old + 1, new + 1
    return found
