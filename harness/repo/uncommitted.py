"""What of a subject's folder its last commit does not hold: a run takes tracked files as they lie, and no others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from harness.records import Json
from harness.repo.git import GitError, run_git
from harness.repo.scan import ALWAYS_IGNORED, tracked_files

_NAMES = 20


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """Paths below the subject's folder. `changed` are tracked and part of a run's root as they lie there, `untracked`
    are left out of it (a whole untracked folder is one path that ends in a slash)."""

    changed: tuple[str, ...]
    untracked: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        """Both lists, cut at some length, and how many there are in all."""
        return {
            "changed": [*self.changed[:_NAMES]],
            "untracked": [*self.untracked[:_NAMES]],
            "counts": {"changed": len(self.changed), "untracked": len(self.untracked)},
        }


def uncommitted(folder: Path, *, own: tuple[str, ...] = ()) -> Uncommitted | None:
    """How `folder` differs from its last commit; None where git tracks nothing in it. Blocking; changes nothing.

    `own` are untracked files that a run reads all the same. No filter, hook or monitor of the repository is run.
    """
    try:
        if not tracked_files(folder):
            return None
        prefix = run_git(["rev-parse", "--show-prefix"], cwd=folder).rstrip(b"\n")
        said = run_git([*_filters_off(folder), *_STATUS], cwd=folder)
    except (GitError, OSError):
        return None
    passed_over = GitIgnoreSpec.from_lines(ALWAYS_IGNORED)
    changed: list[str] = []
    untracked: list[str] = []
    for row in said.split(b"\0"):
        path = os.fsdecode(row[3:].removeprefix(prefix))
        if row.startswith(b"??"):
            if path not in own and not passed_over.match_file(path):
                untracked.append(path)
        elif row:
            changed.append(path)
    return Uncommitted(tuple(changed), tuple(untracked))


_STATUS = (
    *("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=all"),
    *("--", "."),
)


def _filters_off(folder: Path) -> list[str]:
    """Settings that keep `git status` from starting a program that the repository's own configuration names."""
    try:
        listing = run_git(["config", "--null", "--name-only", "--get-regexp", r"^filter\."], cwd=folder)
    except GitError:
        return []
    keys = {os.fsdecode(key) for key in listing.split(b"\0") if key}
    drivers = sorted({key.rpartition(".")[0] for key in keys})
    off = ("clean=", "process=", "smudge=", "required=false")
    return [word for driver in drivers for setting in off for word in ("-c", f"{driver}.{setting}")]


def untracked_match(folder: Path, pattern: str) -> str:
    """A file below `folder` that the glob `pattern` means and git does not track yet; empty for none. Blocking."""
    try:
        if not tracked_files(folder):
            return ""
        said = run_git(["ls-files", "--others", "--exclude-standard", "-z", "--", f":(glob){pattern}"], cwd=folder)
    except (GitError, OSError):
        return ""
    return os.fsdecode(said.split(b"\0", 1)[0])
