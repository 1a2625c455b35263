"""Is a child new? Python is compared as a syntax tree, so that comments and layout make nothing new."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings

from harness.tree import Tree

_WORDS = re.compile(rb"\w+|[^\w\s]")
_SHINGLE = 4


def fingerprint(tree: Tree) -> str:
    """Equal for trees that differ in nothing but comments, docstrings, layout and blank lines of Python files."""
    whole = hashlib.sha256()
    for path, file in tree.items():
        whole.update(f"{len(path)}:{path}:{int(file.executable)}:".encode())
        whole.update(hashlib.sha256(_plain(path, file.data)).digest())
    return whole.hexdigest()


def likeness(one: Tree, other: Tree) -> float:
    """How alike two trees are, 0 to 1: the Jaccard index of runs of four tokens of the files that differ.

    1 for equal trees and for those that differ in layout alone.
    """
    differing = [path for path in sorted({*one, *other}) if one.get(path) != other.get(path)]
    mine, theirs = _shingles(one, differing), _shingles(other, differing)
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 1.0


def _shingles(tree: Tree, paths: list[str]) -> set[bytes]:
    found: set[bytes] = set()
    for path in paths:
        if path in tree:
            words = _WORDS.findall(_plain(path, tree[path].data))
            found |= {b" ".join(words[at : at + _SHINGLE]) for at in range(max(1, len(words) - _SHINGLE + 1))}
    return found


def _plain(path: str, data: bytes) -> bytes:
    if not path.endswith(".py"):
        return data
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = ast.parse(data)
        for node in ast.walk(parsed):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                _drop_docstring(node)
        return ast.unparse(parsed).encode("utf-8", "surrogatepass")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return data


def _drop_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]
