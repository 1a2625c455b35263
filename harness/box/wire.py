"""The wire between host and guest, host side: frames, packed fields and entries, checked as if the worker were hostile.

A frame is type u8, one zero byte, channel u16, length u32 (big-endian), then at most `MAX_FRAME` bytes. Types 32 to
47 are kept for a relay of model traffic. The constants are the guest's (sandbox/guest/frames.py); a test compares.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, get_args

from harness.errors import InfraError
from harness.tree import Entry, Kind

HEADER = struct.Struct("!BBHI")
ENTRY_HEAD = struct.Struct("!BHIQ")
MAX_FRAME = 1 << 18
MAX_PATH = 4096
CHUNK = 1 << 16

HELLO, CONFIG, PING, OK, FAIL = 1, 2, 3, 4, 5
PUT, GET, EXEC, RESET = 8, 9, 10, 11
ENTRY, DATA, END = 16, 17, 18
OUT, ERR, EXIT = 24, 25, 26
RELAY = range(32, 48)
LISTEN, OPENED, BYTES, SHUT, CLOSED, CREDIT = 32, 33, 34, 35, 36, 37

_FROM_GUEST = frozenset({HELLO, OK, FAIL, ENTRY, DATA, END, OUT, ERR, EXIT, *RELAY})
_MAY_BE_EMPTY = frozenset({OK, *RELAY})
KINDS: tuple[Kind, ...] = get_args(Kind)


class Frame(NamedTuple):
    """One message."""

    type: int
    channel: int
    payload: bytes


class Decoder:
    """Bytes in, frames out. Holds at most one unfinished frame; anything odd raises InfraError."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes."""
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= HEADER.size:
                kind, zero, channel, size = HEADER.unpack_from(self._buffer, at)
                _check_header(kind, zero, size)
                end = at + HEADER.size + size
                if end > len(self._buffer):
                    break
                payload = bytes(self._buffer[at + HEADER.size : end])
                at = end
                yield Frame(kind, channel, payload)
        finally:
            del self._buffer[:at]

    @property
    def pending(self) -> int:
        """Bytes of the unfinished frame."""
        return len(self._buffer)


def _check_header(kind: int, zero: int, size: int) -> None:
    if kind not in _FROM_GUEST or zero:
        raise InfraError(f"the box's worker sent an unknown frame type {kind}")
    if size > MAX_FRAME:
        raise InfraError(f"the box's worker announced a frame of {size} bytes")
    if not size and kind not in _MAY_BE_EMPTY:
        raise InfraError(f"the box's worker sent an empty frame of type {kind}")


def encode(kind: int, channel: int, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    if len(payload) > MAX_FRAME:
        raise ValueError(f"a frame holds at most {MAX_FRAME} bytes, not {len(payload)}")
    return HEADER.pack(kind, 0, channel, len(payload)) + payload


def pack(items: Sequence[bytes]) -> bytes:
    """Byte strings, each behind its length."""
    return b"".join(len(item).to_bytes(4) + item for item in items)


def unpack(payload: bytes, count: int) -> list[bytes]:
    """Exactly `count` packed byte strings, or InfraError."""
    items: list[bytes] = []
    at = 0
    while at < len(payload) and len(items) < count:
        size = int.from_bytes(payload[at : at + 4])
        if at + 4 + size > len(payload):
            break
        items.append(payload[at + 4 : at + 4 + size])
        at += 4 + size
    if len(items) != count or at != len(payload):
        raise InfraError("the box's worker sent fields that do not add up")
    return items


def number(field: bytes, low: float, high: float) -> float:
    """A plain decimal number in [low, high], or InfraError."""
    try:
        value = float(field) if len(field) <= 32 and b"_" not in field else float("nan")
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InfraError("the box's worker sent a number out of range")
    return value


def checked_path(path: bytes) -> bytes:
    """`path` if it is relative, clean, and stays below where it starts. Raises ValueError."""
    parts = path.split(b"/")
    if not path or len(path) > MAX_PATH or b"\0" in path or any(part in {b"", b".", b".."} for part in parts):
        raise ValueError(f"not a clean relative path: {path[:200]!r}")
    return path


def checked_entry(entry: Entry) -> Entry:
    """`entry` if it may go into a box: a file or a folder with a clean path. Raises ValueError."""
    if entry.kind not in {"file", "dir"}:
        raise ValueError(f"only files and folders go into a box, not a {entry.kind}: {entry.path[:200]!r}")
    checked_path(entry.path)
    return entry


def encode_entries(entries: Iterable[Entry], channel: int) -> Iterator[bytes]:
    """The frames that put checked entries into a box, without the END."""
    for entry in entries:
        head = ENTRY_HEAD.pack(KINDS.index(entry.kind), entry.mode & 0o777, 1, len(entry.data))
        yield encode(ENTRY, channel, head + entry.path)
        for at in range(0, len(entry.data), CHUNK):
            yield encode(DATA, channel, entry.data[at : at + CHUNK])


class EntryReader:
    """Rebuilds entries from ENTRY and DATA frames, within `max_bytes` of data and `max_entries`."""

    def __init__(self, max_bytes: int, max_entries: int) -> None:
        self._bytes_left = max_bytes
        self._entries_left = max_entries
        self._found: list[Entry] = []
        self._head: tuple[bytes, Kind, int, int] | None = None
        self._data = bytearray()
        self._missing = 0

    def feed(self, frame: Frame) -> None:
        """Take one frame. Raises InfraError for what an honest worker would not send."""
        if frame.type == ENTRY:
            self._begin(frame.payload)
        elif frame.type == DATA and len(frame.payload) <= self._missing:
            self._data += frame.payload
            self._missing -= len(frame.payload)
            self._finish()
        else:
            raise InfraError("the box's worker sent data that belongs to no file")

    def done(self) -> list[Entry]:
        """What was found, ordered by path."""
        if self._missing:
            raise InfraError("the box's worker ended in the middle of a file")
        return sorted(self._found, key=lambda entry: entry.path)

    def _begin(self, payload: bytes) -> None:
        if self._missing or len(payload) < ENTRY_HEAD.size:
            raise InfraError("the box's worker sent half an entry")
        kind, mode, links, size = ENTRY_HEAD.unpack_from(payload)
        path = payload[ENTRY_HEAD.size :]
        try:
            checked_path(path) if path else None
        except ValueError as error:
            raise InfraError(f"the box's worker sent a path that is {error}") from None
        self._bytes_left -= size
        self._entries_left -= 1
        if kind >= len(KINDS) or mode > 0o7777 or self._bytes_left < 0 or self._entries_left < 0:
            raise InfraError("the box's worker sent an entry past what was asked for")
        if size and KINDS[kind] not in {"file", "symlink"}:
            raise InfraError("the box's worker sent data for something that has none")
        self._head = (path, KINDS[kind], mode, links)
        self._missing = size
        self._finish()

    def _finish(self) -> None:
        if not self._missing and self._head is not None:
            path, kind, mode, links = self._head
            self._found.append(Entry(path, kind, mode, bytes(self._data), links))
            self._head = None
            self._data.clear()
