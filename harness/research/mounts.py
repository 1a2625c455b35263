"""Host folders that boxes see read-only, pinned by content: hashed once when a run starts, and held against that when
it is resumed, before its vault is opened, and on `strop verify`.

The manifest is a tree of the run like any other, so the ledger's chain covers it; the data itself is not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from harness.box.base import Mount
from harness.errors import InputError, IntegrityError
from harness.policy.schema import Policy
from harness.records import Json
from harness.repo.store import TreeStore
from harness.tree import File, Tree

NAME = "mounts"  # of the manifest among the pinned trees, and of the folders in what the run's first entry saw
_FILE = "manifest.json"
Manifest = Mapping[str, Mapping[str, str]]  # {place in the box: {path: what it is}}


def folders(policy: Policy, subject: Path) -> dict[str, Path]:
    """{place in the box: folder}; relative ones lie in the subject. Raises InputError for what is no folder."""
    if policy.box.mounts and policy.box.backend == "process":
        mend = 'use box.backend = "embedded" or "docker"'
        raise InputError("nothing is read-only in a plain process", key="policy.box.mounts", mend=mend)
    found = {at: (subject / Path(text).expanduser()).resolve() for at, text in policy.box.mounts.items()}
    for at, folder in found.items():
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder", key=f"policy.box.mounts.{at}", mend="name one that is there")
    return found


async def manifest_of(given: Mapping[str, Path]) -> Tree:
    """The manifest of `given`, as a tree of one file. Raises InputError for what cannot be read or pinned."""
    listed: dict[str, Mapping[str, str]] = {}
    for at, folder in given.items():
        try:
            listed[at] = await anyio.to_thread.run_sync(_listed, folder)
        except (OSError, ValueError) as error:
            mend = "mount a folder of plain files, folders and links that you can read"
            raise InputError(f"cannot be pinned: {error}", key=f"policy.box.mounts.{at}", mend=mend) from None
    text = json.dumps(listed, sort_keys=True, indent=0)
    return Tree({_FILE: File(text.encode("utf-8", "surrogateescape"))})


def mounts(seen: Mapping[str, Json]) -> tuple[Mount, ...]:
    """What the boxes of a run are given, by what its first entry saw."""
    return tuple(Mount(folder, at) for at, folder in _places(seen).items())


async def check_mounts(
    body: Mapping[str, Any], seen: Mapping[str, Json], store: TreeStore, *, may_be_elsewhere: bool = False
) -> tuple[int, int]:
    """(how many are as they were, how many are not on this machine). Raises IntegrityError naming the first path that
    differs; a folder that is not there is one too, unless it `may_be_elsewhere`, as for a copy of a run.
    """
    tree_id = body["pinned"].get(NAME)
    if tree_id is None:
        return 0, 0
    manifest = cast("Manifest", json.loads((await store.read(tree_id))[_FILE].data))
    places, absent = _places(seen), 0
    for at, known in manifest.items():
        folder = places[at]
        if may_be_elsewhere and not folder.is_dir():
            absent += 1
            continue
        try:
            found = await anyio.to_thread.run_sync(_listed, folder)
        except (OSError, ValueError) as error:
            raise IntegrityError(f"mount {at}", expected="what was pinned", found=str(error)) from None
        for path in sorted(known.keys() | found.keys()):
            if known.get(path) != found.get(path):
                missing = "nothing"
                record = f"mount {at}: {path}"
                raise IntegrityError(record, expected=known.get(path, missing), found=found.get(path, missing))
    return len(manifest) - absent, absent


def _places(seen: Mapping[str, Json]) -> dict[str, Path]:
    return {at: Path(folder) for at, folder in cast("Mapping[str, str]", seen.get(NAME, {})).items()}


def _listed(top: Path) -> dict[str, str]:
    """{path: "link TARGET" or "sha256 DIGEST", with "x" for an executable}, and "folder" for empty ones. Blocks."""
    found: dict[str, str] = {}
    if not top.is_dir():
        raise ValueError(f"{top} is not there")
    for folder, names, files in os.walk(top, onerror=_raise):
        base = Path(folder)
        if not names and not files:
            found[f"{base.relative_to(top)}/"] = "folder"
        links = [name for name in names if (base / name).is_symlink()]
        for name in (*links, *files):
            path = base / name
            found[str(path.relative_to(top))] = _what(path)
    return found


def _what(path: Path) -> str:
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        return f"link {os.fspath(path.readlink())}"
    if not stat.S_ISREG(info.st_mode):
        raise ValueError(f"{path} is neither a file nor a folder nor a link")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"sha256 {digest}{' x' if info.st_mode & 0o111 else ''}"


def _raise(error: OSError) -> None:
    raise error
