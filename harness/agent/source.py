"""Python source as bytes with its syntax tree: read, never executed, and edited by exact byte spans."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

MAX_BYTES = 512 * 1024
_BOM = b"\xef\xbb\xbf"
_NEWLINE = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file. `starts[k]` is the byte offset in `data` of line k + 1."""

    data: bytes
    module: ast.Module
    starts: tuple[int, ...]

    def span(self, node: ast.expr) -> tuple[int, int]:
        """The bytes `node` was read from, as (start, end) in `data`."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, start: int, end: int) -> str:
        """The source between two byte offsets."""
        return self.data[start:end].decode()


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes from `start` to `end` by `text`."""

    start: int
    end: int
    text: str


def parse(data: bytes) -> Source | None:
    """The file as a tree, or None when it is not UTF-8 Python of a sane size and depth."""
    if len(data) > MAX_BYTES:
        return None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if encoding not in {"utf-8", "utf-8-sig"}:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a subject's odd escapes are its own affair
            module = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Source(data, module, _line_starts(data))


def _line_starts(data: bytes) -> tuple[int, ...]:
    # ast counts columns in UTF-8 bytes, and from after the byte order mark on the first line
    first = len(_BOM) if data.startswith(_BOM) else 0
    return (first, *(match.end() for match in _NEWLINE.finditer(data)))


def apply(data: bytes, edits: Sequence[Edit]) -> bytes:
    """`data` with every edit made; edits must not overlap. All other bytes stay as they are."""
    pieces: list[bytes] = []
    end = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        if edit.start < end:
            raise ValueError("edits overlap")
        pieces += [data[end : edit.start], edit.text.encode()]
        end = edit.end
    return b"".join([*pieces, data[end:]])
