"""From a model's reply to changes of files, in whichever of three ways it wrote them down; prose is never adopted.

Search/replace blocks, unified diffs, and whole files in a fence. What is unclear is `Unusable`, with a reason the model
can be shown.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.agent import literals, source, unified
from harness.tree import Tree

Format = str
_SEARCH = re.compile(
    r"^[ \t]*<{5,9} ?SEARCH[^\n]*\n(?P<old>.*?)^[ \t]*={5,9}[ \t]*\n(?P<new>.*?)^[ \t]*>{5,9} ?REPLACE[^\n]*$",
    re.M | re.S,
)
_OPEN = re.compile(r"^[ \t]*<{5,9} ?SEARCH[^\n]*\n", re.M)
_DIVIDE = re.compile(r"^[ \t]*={5,9}[ \t]*$\n?", re.M)
_CLOSE = re.compile(r"^[ \t]*>{5,9} ?REPLACE[^\n]*$\n?", re.M)
_COMMENT = re.compile(r"(?<=\S)[ \t]+#[^'\"]*$")
_CHECKED = (".py", ".json", ".toml")  # files whose own language says when a line of prose got in
_FENCE = re.compile(r"^(?P<mark>`{3,}|~{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=mark)[ \t]*$", re.M | re.S)
_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S | re.I)
_ELIDED = re.compile(
    r"^[ \t]*(?:#|//|--)?[ \t]*(?:\.\.\.|…)[ \t]*"
    r"(?:\(?(?:rest|the rest|existing|unchanged|remaining|same|omitted)\b.*)?$"
    r"|^[ \t]*(?:#|//)[ \t]*\(?(?:rest of|existing code|remaining code|unchanged|same as (?:before|above))\b.*$",
    re.M | re.I,
)
_PATH = re.compile(r"[A-Za-z0-9_.@+\-][A-Za-z0-9_.@+\-/]*")
_LEAST = 0.3  # a whole file that is this much shorter than the one it replaces is an excerpt


class Unusable(Exception):  # noqa: N818 - a reply, not a fault of ours
    """A reply nothing can be made of, and why."""


@dataclass(frozen=True, slots=True)
class Edits:
    """What a reply changes: path -> new bytes, and the way it was written."""

    changes: dict[str, bytes | None]
    format: Format


def read(reply: str, tree: Tree, is_editable: Callable[[str], bool], *, cut: bool = False) -> Edits:
    """The changes a reply asks for. `cut` says that it ended at the most tokens it was allowed. Raises Unusable."""
    text = _THINKING.sub("", reply.replace("\r\n", "\n")).strip() + "\n"
    paths = _Paths(tree, is_editable)
    if _SEARCH.search(text):
        blocks = [_Block(match.start(), match["old"], match["new"]) for match in _SEARCH.finditer(text)]
        edits = _search_replace(text, tree, paths, blocks)
    elif _OPEN.search(text):
        edits = _search_replace(text, tree, paths, _loose(text, cut))
    elif unified.is_diff(text):
        edits = Edits(_unified(text, tree, paths), "unified_diff")
    elif (pair := _old_and_new(text, tree, paths)) is not None:
        edits = Edits(pair, "old_and_new")
    elif (lines := _signed(text, tree, paths)) is not None:
        edits = Edits(lines, "signed")
    elif _FENCE.search(text):
        edits = Edits(_whole_files(text, tree, paths), "whole_file")
    else:
        raise Unusable(
            "it ended before the edit did; make it shorter" if cut else "no edit was found in it, only prose"
        )
    changed = {path: data for path, data in edits.changes.items() if path not in tree or tree[path].data != data}
    if not changed:
        already = _added(text)
        raise Unusable(
            "the edit changes nothing" + (f": {already!r} is there already; change something else" * bool(already))
        )
    for path, data in changed.items():
        _sound(path, data)
    return Edits(changed, edits.format)


class _Paths:
    """Which file a reply means."""

    def __init__(self, tree: Tree, is_editable: Callable[[str], bool]) -> None:
        self._tree = tree
        self._editable = [path for path in tree if is_editable(path)]

    def named(self, text: str) -> str | None:
        """The path named in a line or an info string, or None when it names none."""
        for word in re.split(r"[\s`'\"*:()<>,=]+", text):
            bare = word.removeprefix("./").rstrip(".")
            bare = bare if bare in self._tree else re.sub(r"^(?:[ab]/|/work/)", "", bare)
            if bare in self._tree:
                return bare
            same = [path for path in self._editable if path.rpartition("/")[2] == bare]
            if len(same) == 1:
                return same[0]
            if _PATH.fullmatch(bare) and re.search(r"[A-Za-z0-9_]\.[A-Za-z][A-Za-z0-9]{0,5}$", bare):
                return bare
        return None

    def only(self) -> str | None:
        """The one editable file, when there is one."""
        return self._editable[0] if len(self._editable) == 1 else None

    def before(self, text: str, at: int) -> str | None:
        """The path in the nearest line above `at` that is neither blank nor a fence."""
        above = [
            row for row in text[:at].split("\n")[-4:] if row.strip() and not row.lstrip().startswith(("```", "~~~"))
        ]
        fenced = [row for row in text[:at].split("\n")[-3:] if row.lstrip().startswith(("```", "~~~"))]
        found = self.named(above[-1]) if above else None
        return found or (self.named(fenced[-1].lstrip("`~ ")) if fenced else None)


@dataclass(frozen=True, slots=True)
class _Block:
    """A search/replace block and where it starts; a `loose` one lacks one of its three marks."""

    at: int
    old: str
    new: str
    loose: bool = False


def _loose(text: str, cut: bool) -> list[_Block]:
    """Blocks as small models write them: without an end, or with the end where the middle should be."""
    heads = list(_OPEN.finditer(text))
    blocks: list[_Block] = []
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : following.start() if following else len(text)]
        body = re.split(r"^(?:```|~~~)", body, maxsplit=1, flags=re.M)[0]
        middle, end = _DIVIDE.search(body), _CLOSE.search(body)
        pairs = list(unified.signed(body)) if middle is None else []
        if len(pairs) == 1:
            old, new = pairs[0][1:]
        elif middle is not None and end is None and not (cut and following is None):
            old, new = body[: middle.start()], body[middle.end() :].rstrip() + "\n"
        elif middle is None and end is not None:
            old, new = body[: end.start()], body[end.end() :].strip("\n").partition("\n\n")[0].rstrip() + "\n"
        else:
            raise Unusable("a SEARCH block needs a line of ======= and, at its end, a line >>>>>>> REPLACE")
        if not old.strip() or not new.strip():
            raise Unusable("a SEARCH block without its ======= or its >>>>>>> REPLACE line says nothing")
        blocks.append(_Block(head.start(), old, new, loose=True))
    return blocks


def _search_replace(text: str, tree: Tree, paths: _Paths, blocks: Iterable[_Block]) -> Edits:
    laid: dict[str, str] = {}
    near = False
    last: str | None = None
    for block in blocks:
        path = paths.before(text, block.at) or last or paths.only()
        if path is None:
            raise Unusable("a search/replace block does not say which file it is for")
        if block.loose and not path.endswith(_CHECKED):
            raise Unusable("a SEARCH block needs a line of ======= and, at its end, a line >>>>>>> REPLACE")
        if path not in tree and path not in laid and block.old.strip():
            path = paths.only() or path  # nothing to search in: a placeholder, or a name got wrong
        last = path
        now = laid.get(path) if path in laid else (_text(tree, path) if path in tree else "")
        assert now is not None
        laid[path], by_shape = _replaced(now, block.old, block.new, path)
        near = near or by_shape
    return Edits({path: text.encode() for path, text in laid.items()}, "literals" if near else "search_replace")


def _replaced(now: str, old: str, new: str, path: str) -> tuple[str, bool]:
    """(the text with `new` for `old`, whether `old` was found but for its literals). Raises Unusable."""
    if not old.strip():
        if now.strip():
            raise Unusable(f"an empty SEARCH block for {path}, which is not empty")
        return new, False
    if now.count(old) == 1:
        return now.replace(old, new), False
    if now.count(old) > 1:
        raise Unusable(f"a SEARCH block is found {now.count(old)} times in {path}; make it longer")
    rows, wanted = now.split("\n"), old.rstrip("\n").split("\n")
    made = new.rstrip("\n").split("\n") if new.strip() else []
    found = unified.find_lines(rows, wanted)
    if found is None and path.endswith(".py"):
        found = unified.find_lines([_bare(row) for row in rows], [_bare(row) for row in wanted])
        if found is not None and len(made) == len(wanted):
            made = [_commented(row, rows[found + place]) for place, row in enumerate(made)]
    by_shape = found is None and path.endswith(_CHECKED)
    if by_shape:
        found, made = literals.moved(rows, wanted, made, _bare if path.endswith(".py") else str) or (None, made)
    if found is None:
        near = difflib.get_close_matches(next(row for row in wanted if row.strip()), rows, n=1, cutoff=0.5)
        like = f"; the line most like it there is {near[0].strip()!r}" if near else ""
        raise Unusable(f"a SEARCH block is not found in {path}{like}; copy the lines exactly")
    rows[found : found + len(wanted)] = made
    return "\n".join(rows), by_shape


def _bare(row: str) -> str:
    """A line of Python without the comment behind it, where that is plain to see."""
    return _COMMENT.sub("", row)


def _commented(row: str, before: str) -> str:
    """`row` with the comment that stood behind the line it replaces, unless it has one."""
    comment = _COMMENT.search(before)
    return row if comment is None or "#" in row else row.rstrip() + comment[0]


def _unified(text: str, tree: Tree, paths: _Paths) -> dict[str, bytes | None]:
    changes: dict[str, bytes | None] = {}
    for patch in unified.patches(text):
        path = paths.named(patch.new or patch.old) or paths.only()
        if patch.removes:
            path = paths.named(patch.old)
            if path is not None:
                changes[path] = None
                continue
        if path is None:
            raise Unusable("a diff does not say which file it is for")
        before = changes[path] if path in changes else (tree[path].data if path in tree else b"")
        try:
            changes[path] = unified.applied(patch, (before or b"").decode("utf-8")).encode()
        except ValueError as error:
            raise Unusable(f"{path}: {error}") from None
    return changes


def _old_and_new(text: str, tree: Tree, paths: _Paths) -> dict[str, bytes | None] | None:
    """Two fences, what is there and what should be: only where the first stands once in the file meant. None else."""
    bodies = list(_FENCE.finditer(text))
    if len(bodies) != 2:
        return None
    old, new = bodies[0]["body"], bodies[1]["body"]
    path = paths.before(text, bodies[0].start()) or paths.only()
    if path not in tree:
        path = paths.only()
    if path is None or path not in tree or not path.endswith(_CHECKED) or not old.strip() or not new.strip():
        return None
    try:
        return {path: _replaced(_text(tree, path), old, new, path)[0].encode()}
    except Unusable:
        return None


def _signed(text: str, tree: Tree, paths: _Paths) -> dict[str, bytes | None] | None:
    """Minus and plus lines without a header, where the minus lines stand in the file meant. None else."""
    blocks = [_Block(at, old, new, loose=True) for at, old, new in unified.signed(text)]
    if not blocks:
        return None
    try:
        return _search_replace(text, tree, paths, blocks).changes
    except Unusable:
        return None


def _added(text: str) -> str:
    """The first line that a search/replace block would put there."""
    block = _SEARCH.search(text)
    return next((row.strip() for row in block["new"].splitlines() if row.strip()), "") if block else ""


def _whole_files(text: str, tree: Tree, paths: _Paths) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    unnamed: list[str] = []
    for match in _FENCE.finditer(text):
        body = match["body"]
        info = match["info"].strip()
        first = body.lstrip("\n").partition("\n")[0]
        path = paths.named(info) or paths.before(text, match.start())
        if path is None and first.lstrip().startswith(("#", "//")):
            path = paths.named(first)
        if path is None:
            unnamed.append(body)
        else:
            found[path] = _whole(body, tree, path)
    only = paths.only()
    if not found and only is not None and unnamed:
        longest = max(unnamed, key=len)
        found[only] = _whole(longest, tree, only)
    if not found:
        raise Unusable("a code fence does not say which file it is")
    return found


def _whole(body: str, tree: Tree, path: str) -> bytes:
    if _ELIDED.search(body) and not (path in tree and _ELIDED.search(_text(tree, path))):
        raise Unusable(f"{path} is not whole: parts of it are left out")
    if path in tree and len(body) < _LEAST * len(tree[path].data):
        raise Unusable(f"{path} is not whole: it is {len(body)} bytes, the file has {len(tree[path].data)}")
    return body.encode()


def _text(tree: Tree, path: str) -> str:
    try:
        return tree[path].data.decode("utf-8")
    except UnicodeDecodeError:
        raise Unusable(f"{path} is not text") from None


def _sound(path: str, data: bytes | None) -> None:
    """Raises Unusable for a file that its own language would not read."""
    if data is None:
        return
    try:
        if path.endswith(".py"):
            if source.parse(data) is None:
                raise Unusable(f"{path} would not be valid Python")
        elif path.endswith(".json"):
            json.loads(data)
        elif path.endswith(".toml"):
            tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{path} would not be valid: {str(error)[:200]}") from None
