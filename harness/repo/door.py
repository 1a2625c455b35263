"""The one door: what an agent or a box hands over becomes a `Tree`, or a `Refusal` that says why not.

Nothing here touches the file system (`scan_folder`, for the user's own folder, lives in `scan`). Violations are
data, never exceptions: a blocked child is a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from harness.policy.locks import Globs
from harness.repo.caps import DEFAULT_CAPS, Caps
from harness.repo.names import flaw, folded, oddity
from harness.repo.scan import scan_folder
from harness.repo.shadows import shadow
from harness.tree import Entry, File, Tree
from harness.untrusted import line

__all__ = ["Caps", "Refusal", "Violation", "admit", "apply_changes", "judge", "scan_folder"]

MAX_VIOLATIONS = 100

_GIT_PARTS = {"head", "objects", "refs", "commondir"}

ViolationKind = Literal[
    "name", "kind", "collision", "repository", "size", "count", "added", "removed", "changed", "mode"
]


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that may not be: `path` is already encoded for display, `what` is a phrase."""

    path: str
    kind: ViolationKind
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a tree was not let in; at most `MAX_VIOLATIONS` of the reasons."""

    violations: tuple[Violation, ...]


def admit(entries: Iterable[Entry], *, caps: Caps = DEFAULT_CAPS, drop_git: bool = False) -> Tree | Refusal:
    """The tree these entries make, modes normalised to 644 or 755, or everything that speaks against it.

    `drop_git` leaves out a folder `.git` at the top, the throwaway one made in a box for coding agents; any other
    is refused always.
    """
    found = list(entries)
    if drop_git:
        found = [entry for entry in found if not _is_own_git(entry)]
    files = [entry for entry in found if entry.kind != "dir"]
    faults = _size_faults(found, files, caps)
    if faults:
        # hostile bulk is not looked at name by name
        return Refusal(tuple(faults))
    for entry in found:
        fault = _fault(entry, caps)
        if fault is not None:
            faults.append(fault)
    clean = [] if faults else [(entry.path.decode(), entry) for entry in found]
    faults += _collisions([(path.removesuffix("/"), entry.kind == "dir") for path, entry in clean])
    faults += _repositories([path for path, _ in clean])
    if faults:
        return Refusal(tuple(faults[:MAX_VIOLATIONS]))
    return Tree((path, File(entry.data, bool(entry.mode & 0o100))) for path, entry in clean if entry.kind == "file")


def judge(parent: Tree, child: Tree, editable: Callable[[str], bool], *, new: bool = True) -> list[Violation]:
    """Everything that differs from the parent and is not editable, in order of path. Default deny.

    A new file that would configure or shadow what runs is let in by its own name only, never by a wider glob; `new`
    turned off leaves that question to when the file came in.
    """
    faults: list[Violation] = []
    others = child.keys()
    for path in sorted({*parent, *child}):
        before, after = parent.get(path), child.get(path)
        if before == after:
            continue
        if editable(path):
            asked = new and before is None and not _named(editable, path)
            hidden = (oddity(path) or shadow(path, parent, others)) if asked else None
            if hidden is not None:
                faults.append(Violation(line(path), "added", f"{hidden}; only `editable` that names it lets it in"))
            continue
        if before is None:
            faults.append(Violation(line(path), "added", "added, and not editable"))
        elif after is None:
            faults.append(Violation(line(path), "removed", "removed, and not editable"))
        elif before.data != after.data:
            faults.append(Violation(line(path), "changed", "changed, and not editable"))
        else:
            faults.append(Violation(line(path), "mode", "mode changed, and not editable"))
    return faults


def _named(editable: Callable[[str], bool], path: str) -> bool:
    return isinstance(editable, Globs) and path in editable.patterns


def apply_changes(tree: Tree, changes: Mapping[str, bytes | None]) -> list[Entry]:
    """The tree with an agent's changes laid over it, as entries for `admit`: no path is trusted here."""
    laid = {entry.path: entry for entry in tree.entries()}
    for path, data in changes.items():
        raw = path.encode("utf-8", "surrogatepass")
        if data is None:
            laid.pop(raw, None)
        else:
            laid[raw] = Entry(raw, "file", laid[raw].mode if raw in laid else 0o644, data)
    return list(laid.values())


def _is_own_git(entry: Entry) -> bool:
    return entry.path.startswith(b".git/") or (entry.path.rstrip(b"/") == b".git" and entry.kind == "dir")


def _size_faults(found: list[Entry], files: list[Entry], caps: Caps) -> list[Violation]:
    faults: list[Violation] = []
    if len(files) > caps.files:
        faults.append(Violation("", "count", f"{len(files)} files, {caps.files} allowed"))
    if len(found) - len(files) > caps.files:
        faults.append(Violation("", "count", f"{len(found) - len(files)} folders, {caps.files} allowed"))
    total = sum(len(entry.data) for entry in files)
    if total > caps.total_bytes:
        faults.append(Violation("", "size", f"{total} bytes in all, {caps.total_bytes} allowed"))
    return faults


def _fault(entry: Entry, caps: Caps) -> Violation | None:
    shown = line(entry.path)
    what = flaw(entry.path.removesuffix(b"/") if entry.kind == "dir" else entry.path, depth=caps.depth)
    if what is not None:
        return Violation(shown, "name", what)
    if entry.kind == "dir":
        return None
    if entry.kind != "file":
        return Violation(shown, "kind", f"a {entry.kind}: only regular files are let in")
    if entry.links > 1:
        return Violation(shown, "kind", f"a hardlink with {entry.links} names: only regular files are let in")
    if len(entry.data) > caps.file_bytes:
        return Violation(shown, "size", f"{len(entry.data)} bytes, {caps.file_bytes} allowed")
    return None


def _collisions(paths: list[tuple[str, bool]]) -> list[Violation]:
    faults: list[Violation] = []
    seen: dict[str, tuple[str, bool]] = {}
    named: set[str] = set()
    for path, is_folder in paths:
        if path in named:
            faults.append(Violation(line(path), "collision", "named twice"))
        named.add(path)
        parts = path.split("/")
        for size in range(1, len(parts) + 1):
            prefix = "/".join(parts[:size])
            as_folder = is_folder or size < len(parts)
            other, other_is_folder = seen.setdefault(folded(prefix), (prefix, as_folder))
            if other != prefix:
                faults.append(Violation(line(prefix), "collision", f"the same name as {line(other)} on some systems"))
            elif other_is_folder != as_folder:
                faults.append(Violation(line(prefix), "collision", "both a file and a folder"))
    return faults


def _repositories(paths: list[str]) -> list[Violation]:
    """Folders git would take for a repository, were someone to enter them: git runs what their config says."""
    holds: dict[str, set[str]] = {}
    for path in paths:
        parts = path.casefold().split("/")
        for at, name in enumerate(parts):
            if name in _GIT_PARTS:
                holds.setdefault("/".join(path.split("/")[:at]), set()).add(name)
    return [
        Violation(line(folder) or ".", "repository", "an embedded git repository")
        for folder, found in sorted(holds.items())
        if "head" in found and ("commondir" in found or {"objects", "refs"} <= found)
    ]
