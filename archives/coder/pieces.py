"""A program in pieces small enough for a small model: its functions, classes and constants, one at a time."""

import ast
import random
import re

FENCE = re.compile(r"^[ \t]*```\w*[^\n]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


def fenced(reply):
    """The first fenced block of a reply, or nothing."""
    found = FENCE.search(reply)
    return found[1] if found else ""


def wrong(text):
    """What keeps a text from being Python, or nothing."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        return f"the block is no Python: {error}"
    return ""


def names(text):
    """The top-level definitions of a Python text: name to first and last line."""
    found = {}
    for node in ast.parse(text).body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = first, node.end_lineno
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = first, node.end_lineno
    return found


def pick(folder, seed):
    """One definition below the folder: its file, its name and its text; None when nothing there is Python."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(errors="replace")
        lines, places = text.splitlines(), {} if wrong(text) else names(text)
        found += [(path, name, "\n".join(lines[first - 1 : last])) for name, (first, last) in places.items()]
    return random.Random(seed).choice(found) if found else None


def put(path, name, new):
    """The definition is replaced by the new text; what is wrong with that text, or nothing."""
    text = path.read_text()
    if wrong(new) or name not in names(new):
        return wrong(new) or f"the block does not hold `{name}`"
    first, last = names(text)[name]
    lines = text.splitlines()
    if "\n".join(lines[first - 1 : last]).strip() == new.strip():
        return f"`{name}` is as it was: change it"
    path.write_text("\n".join([*lines[: first - 1], new.strip("\n"), *lines[last:]]) + "\n")
    return ""
