"""What an autoresearch project's program.md says, line by line: the command, the file to edit, the limit, the goal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_COMMAND = re.compile(r"\b(uv run(?: python3?)?|python3?) (train\.py(?: --?[\w=.,-]+(?: [\w.]+)?)*)")
_NAME = re.compile(r"[\w./-]*\w\.(?:py|md|toml|json|ya?ml|txt|cfg|ini|sh|ipynb)\b")
_EDITED = re.compile(r"\b(edit|modif|chang)\w*", re.IGNORECASE)
_ONLY = re.compile(r"\bonly\b|\bfile (that )?you (edit|modify|change)\b", re.IGNORECASE)
_DENIED = re.compile(r"\b(not|never|cannot|read-only)\b|n't\b", re.IGNORECASE)
_LIMIT = re.compile(
    r"\b(?:exceeds?|longer than|more than|time ?out(?: of| after|:)?|time limit(?: of|:| is)?|kill(?:ed)? after)"
    r" ~?(\d+(?:\.\d+)?)[ -]?(s|seconds?|m|min|minutes?|h|hours?)\b",
    re.IGNORECASE,
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_LOWER = re.compile(r"\b(lowest|lower|minimi[sz]\w*|smallest|smaller|reduc\w+)\b", re.IGNORECASE)
_HIGHER = re.compile(r"\b(highest|higher|maximi[sz]\w*|largest|larger|increas\w+)\b", re.IGNORECASE)
_GOAL = re.compile(r"\b(goal|objective|metric)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file that says something: its number from 1, and what it says."""

    number: int
    said: str


class Program:
    """program.md, asked for one thing at a time. Whatever it says twice in two ways, it does not say."""

    def __init__(self, text: str) -> None:
        self._lines = [Line(number, said) for number, said in enumerate(text.splitlines(), start=1)]

    def command(self) -> tuple[list[str], str, int] | None:
        """(the words after python, the command as written, its line) of the one way train.py is run."""
        found = [(match, line.number) for line in self._lines for match in _COMMAND.finditer(line.said)]
        if len({match[2] for match, _ in found}) != 1:
            return None
        match, number = found[0]
        return match[2].split(), match[0], number

    def edited(self) -> tuple[str, int] | None:
        """(file, line) of the one file that may be edited."""
        found: dict[str, int] = {}
        for line in self._lines:
            names = dict.fromkeys(_NAME.findall(line.said))
            rule = _EDITED.search(line.said) and _ONLY.search(line.said) and not _DENIED.search(line.said)
            if rule and len(names) == 1:
                found.setdefault(next(iter(names)), line.number)
        return next(iter(found.items())) if len(found) == 1 else None

    def limit_s(self) -> tuple[float, str, int] | None:
        """(seconds, as written, line) of the one time limit an experiment has."""
        found = [(match, line.number) for line in self._lines for match in _LIMIT.finditer(line.said)]
        seconds = {float(match[1]) * _SECONDS[match[2][0].lower()] for match, _ in found}
        if len(seconds) != 1:
            return None
        match, number = found[0]
        return seconds.pop(), match[0], number

    def goal(self, names: Sequence[str]) -> tuple[str, str, int] | None:
        """(name, min or max, line) of the one of `names` that is to become lower or higher."""
        told = [
            (name, direction, line)
            for line in self._lines
            if (direction := _direction(line.said))
            for name in names
            if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", line.said)
        ]
        chosen = [one for one in told if _GOAL.search(one[2].said)] or told
        if len({(name, direction) for name, direction, _ in chosen}) != 1:
            return None
        name, direction, line = chosen[0]
        return name, direction, line.number


def _direction(said: str) -> str:
    lower, higher = _LOWER.search(said), _HIGHER.search(said)
    if bool(lower) == bool(higher):
        return ""
    return "min" if lower else "max"
