"""What `strop init` can tell from a folder by reading it, with the reason for each thing it tells.

Nothing is executed. Every reason names the line it was read from; what no line tells is left out, and so is asked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.cli.program import Program

AUTORESEARCH = ("program.md", "train.py", "prepare.py")
DEFAULT_METRIC = "val_bpb"
_LABEL = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.\-]{0,63})\s*[:=]")
_READ_LIMIT = 4_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """One value for strop.toml, and why it is believed."""

    value: object
    why: str


def recognise(folder: Path, metric: str | None = None) -> dict[str, Found]:
    """Values for an autoresearch folder (program.md, train.py, prepare.py); empty for any other folder.

    `metric` is the name the user gave; without one, it is the one that program.md wants lower or higher and that
    train.py prints.
    """
    if not all((folder / name).is_file() for name in AUTORESEARCH):
        return {}
    program, train = Program(_text(folder / "program.md")), _parsed(folder / "train.py")
    found = _told(program)
    if train is None:
        return found
    printed = printed_names(train)
    found |= _metric(program, printed, metric)
    name = metric or (found["metric"].value if "metric" in found else None)
    at = printed.get(str(name))
    imported = _imports_prepare(train)
    if imported and at:
        found["mode"] = Found(
            "inline", f"train.py imports prepare (line {imported}) and prints its own {name} (line {at})"
        )
    if at:
        found["result"] = Found("stdout", f"train.py prints {name}, line {at}")
    return found


def _told(program: Program) -> dict[str, Found]:
    found: dict[str, Found] = {}
    if edited := program.edited():
        name, number = edited
        found["editable"] = Found([name], f"program.md, line {number}, names it as the only file to edit")
    if command := program.command():
        words, said, number = command
        uv = ", without uv: the box has its own python" if said.startswith("uv") else ""
        found["run"] = Found(["python", *words], f"program.md, line {number}: {said!r}{uv}")
    if limit := program.limit_s():
        seconds, said, number = limit
        found["timeout_s"] = Found(seconds, f"program.md, line {number}: {said!r}")
    return found


def _metric(program: Program, printed: dict[str, int], given: str | None) -> dict[str, Found]:
    goal = program.goal([given] if given else list(printed))
    if goal is None:
        name = DEFAULT_METRIC
        return {"metric": Found(name, f"train.py prints it, line {printed[name]}")} if name in printed else {}
    name, direction, number = goal
    word = "lower" if direction == "min" else "higher"
    found = {"direction": Found(direction, f"program.md, line {number}, wants {name} {word}")}
    if name in printed:
        found["metric"] = Found(name, f"program.md's goal, line {number}; train.py prints it, line {printed[name]}")
    return found


def printed_names(tree: ast.Module) -> dict[str, int]:
    """Name -> line of every `print` of `name: ...` that stands in no loop; a name printed in several places is none."""
    found: dict[str, int] = {}
    several: set[str] = set()
    for call in _calls(tree):
        match = _LABEL.match(_start_of(call.args[0])) if call.args else None
        if match is None:
            continue
        if match[1] in found:
            several.add(match[1])
        found[match[1]] = call.lineno
    return {name: line for name, line in found.items() if name not in several}


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.For | ast.AsyncFor | ast.While):
            continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "print":
            yield child
        yield from _calls(child)


def _start_of(value: ast.expr) -> str:
    """The text a printed expression is known to begin with."""
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text
        case ast.BinOp(left=left):
            return _start_of(left)
        case ast.Call(func=ast.Attribute(value=text)):
            return _start_of(text)
        case _:
            return ""


def _imports_prepare(tree: ast.Module) -> int | None:
    """The line that imports prepare, anywhere in the script."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "prepare":
            return node.lineno
        if isinstance(node, ast.Import) and any(alias.name == "prepare" for alias in node.names):
            return node.lineno
    return None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_READ_LIMIT).decode("utf-8", "replace")


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(_text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
