"""Git objects as bytes: encoding, decoding and hashing, without git and without a file system."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.errors import IntegrityError
from harness.tree import File, Tree

ObjectKind = Literal["blob", "tree", "commit"]
Objects = Mapping[str, tuple[ObjectKind, bytes]]
RowKind = Literal["file", "executable", "folder"]

_ID = re.compile(r"[0-9a-f]{40}\Z")
_FILE, _EXECUTABLE, _FOLDER = b"100644", b"100755", b"40000"
_KINDS: dict[bytes, RowKind] = {_FILE: "file", _EXECUTABLE: "executable", _FOLDER: "folder"}
_PACK_TYPES: dict[ObjectKind, int] = {"commit": 1, "tree": 2, "blob": 3}
_SIGNATURE = b"strop <strop@localhost> 0 +0000"


def object_id(kind: ObjectKind, data: bytes) -> str:
    """The 40 hex digits git knows these bytes by."""
    return hashlib.sha1(b"%s %d\0%s" % (kind.encode(), len(data), data), usedforsecurity=False).hexdigest()


def is_object_id(text: str) -> bool:
    """Whether `text` is a full lower-case object id, and so safe in a path or a command."""
    return bool(_ID.match(text))


def encode(tree: Tree) -> tuple[str, dict[str, tuple[ObjectKind, bytes]]]:
    """The root's id, and every object of the tree by id, blobs and subfolders before what names them."""
    objects: dict[str, tuple[ObjectKind, bytes]] = {}
    nested = _Folder()
    for path, file in tree.items():
        *folders, name = path.split("/")
        here = nested
        for folder in folders:
            here = here.folders.setdefault(folder, _Folder())
        here.files[name] = file
    return _encode_folder(nested, objects), objects


@dataclass(slots=True)
class _Folder:
    files: dict[str, File] = field(default_factory=dict[str, File])
    folders: dict[str, _Folder] = field(default_factory=dict[str, "_Folder"])


def _encode_folder(folder: _Folder, objects: dict[str, tuple[ObjectKind, bytes]]) -> str:
    rows: list[tuple[bytes, bytes]] = []
    for name, file in folder.files.items():
        child = object_id("blob", file.data)
        objects[child] = ("blob", file.data)
        rows.append((name.encode(), _row(_EXECUTABLE if file.executable else _FILE, name, child)))
    for name, below in folder.folders.items():
        # git sorts a folder as if its name ended in a slash
        rows.append((name.encode() + b"/", _row(_FOLDER, name, _encode_folder(below, objects))))
    data = b"".join(row for _, row in sorted(rows))
    whole = object_id("tree", data)
    objects[whole] = ("tree", data)
    return whole


def _row(mode: bytes, name: str, child: str) -> bytes:
    return b"%s %s\0%s" % (mode, name.encode(), bytes.fromhex(child))


def decode_folder(tree_id: str, data: bytes) -> list[tuple[str, RowKind, str]]:
    """(name, kind, id) of each row. Raises IntegrityError on anything the door would not have let in."""
    rows: list[tuple[str, RowKind, str]] = []
    at = 0
    while at < len(data):
        space, end = data.find(b" ", at), data.find(b"\0", at)
        kind = _KINDS.get(data[at : max(space, at)])
        name = data[space + 1 : end].decode("utf-8", "replace")
        if kind is None or end < space or end + 21 > len(data) or name in ("", ".", "..") or "/" in name:
            raise IntegrityError(f"tree {tree_id}", expected="regular files and folders", found=repr(name))
        rows.append((name, kind, data[end + 1 : end + 21].hex()))
        at = end + 21
    return rows


def encode_pack(found: Objects) -> bytes:
    """All objects as one version 2 pack, undeltified, as `git index-pack` reads it."""
    parts = [b"PACK", struct.pack(">II", 2, len(found))]
    for kind, data in found.values():
        parts += [_pack_header(_PACK_TYPES[kind], len(data)), zlib.compress(data, 1)]
    whole = b"".join(parts)
    return whole + hashlib.sha1(whole, usedforsecurity=False).digest()


def _pack_header(kind: int, size: int) -> bytes:
    """Type and size: four bits of size in the first byte, seven in each further one, low bits first."""
    first, size = kind << 4 | size & 0x0F, size >> 4
    header = bytearray()
    while size:
        header.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    header.append(first)
    return bytes(header)


def encode_commit(tree_id: str, message: str, parents: tuple[str, ...] = ()) -> bytes:
    """A commit with a fixed author and date, so that the same tree always has the same commit id."""
    lines = [b"tree " + tree_id.encode()]
    lines += [b"parent " + parent.encode() for parent in parents]
    lines += [b"author " + _SIGNATURE, b"committer " + _SIGNATURE, b"", message.encode(), b""]
    return b"\n".join(lines)


def commit_tree(commit_id: str, data: bytes) -> str:
    """The tree a commit names."""
    head = data.split(b"\n", 1)[0].decode("ascii", "replace")
    tree_id = head.removeprefix("tree ")
    if not is_object_id(tree_id):
        raise IntegrityError(f"commit {commit_id}", expected="a tree", found=repr(head[:80]))
    return tree_id
