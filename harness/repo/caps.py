"""How large a tree may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caps:
    """The largest tree that is let in: files, bytes of one file and of all, folders within folders."""

    files: int = 2000
    file_bytes: int = 8 * 2**20
    total_bytes: int = 64 * 2**20
    depth: int = 32


DEFAULT_CAPS = Caps()
