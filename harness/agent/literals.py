"""A change of literals alone, made where the line it was written for stands with other literals.

Small models copy a line with the number they remember: an earlier candidate's, or its score. What they change is plain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from harness.agent.unified import find_lines

_LITERAL = re.compile(
    r"\"[^\"\n]*\"|'[^'\n]*'|(?<![\w.])[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|\b(?:True|False|None)\b"
)
_NAME = re.compile(r"[A-Za-z_]\w")
_BLANK = "\0"


def moved(
    rows: Sequence[str], old: Sequence[str], new: Sequence[str], bare: Callable[[str], str] = str
) -> tuple[int, list[str]] | None:
    """(where `old` stands in `rows` but for its literals, the lines to put there). None when that is not one place, or
    when `old` and `new` differ in more than literals. `bare` takes off what is not looked at, such as a comment."""
    wanted, made = [bare(row) for row in old], [bare(row) for row in new]
    shapes = [_shape(row) for row in wanted]
    if shapes != [_shape(row) for row in made] or not any(_NAME.search(shape) for shape in shapes):
        return None
    at = find_lines([_shape(bare(row)) for row in rows], shapes)
    if at is None:
        return None
    there = rows[at : at + len(old)]
    return at, [_told(have, *pair) for have, pair in zip(there, zip(wanted, made, strict=True), strict=True)]


def _shape(row: str) -> str:
    return _LITERAL.sub(_BLANK, row).rstrip()


def _told(have: str, old: str, new: str) -> str:
    """`have` with those literals that differ between `old` and `new`."""
    pairs = zip(_LITERAL.findall(old), _LITERAL.findall(new), strict=True)
    changed = iter([after if after != before else None for before, after in pairs])
    return _LITERAL.sub(lambda match: next(changed, None) or match[0], have)
