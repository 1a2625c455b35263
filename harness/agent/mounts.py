"""Host folders that an agent in a box needs: where their programs are, and what else they lean on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from harness.box.base import Mount
from harness.box.prefix import parts_of


def ahead(mounts: Sequence[str]) -> tuple[str, ...]:
    """Where a virtual environment and a node installation keep their programs."""
    return tuple(f"{folder}/{below}" for folder in mounts for below in ("bin", "node_modules/.bin"))


def python(mounts: Sequence[str]) -> str:
    """The Python of the first virtual environment among `mounts`; without one, the box's own."""
    return next(filter(os.path.exists, map(_python, mounts)), "python")


def reach(mounts: Sequence[str]) -> tuple[Mount, ...]:
    """`mounts` at their own paths, with the base of an environment whose Python lies outside the system's folders."""
    folders = [str(Path(folder)) for folder in mounts]
    inside = {*folders}
    for folder in folders:
        inside.update(part for part in parts_of(_python(folder)) if not _below(part, folders))
    return tuple(Mount(Path(folder), folder) for folder in [*folders, *sorted(inside - {*folders})])


def _python(folder: str) -> str:
    return f"{folder}/bin/python"


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)
