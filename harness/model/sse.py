"""Server-sent events, cut at blank lines, with their bytes kept exactly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from harness.records import Json

_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
MAX_EVENT = 16 << 20
DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it came. `body` is its JSON object, or None; `done` is the sentinel some dialects end with."""

    raw: bytes
    body: Mapping[str, Json] | None
    done: bool = False


class Events:
    """Bytes in, events out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that `data` completes. Raises ValueError for one without end or with broken JSON."""
        self._buffer += data
        while (match := _BLANK.search(self._buffer, self._searched)) is not None:
            raw = bytes(self._buffer[: match.end()])
            del self._buffer[: match.end()]
            self._searched = 0
            if raw.strip():
                yield parsed(raw)
        self._searched = max(0, len(self._buffer) - 3)
        if len(self._buffer) > MAX_EVENT:
            raise ValueError("an event of the stream has no end")

    def rest(self) -> Iterator[Event]:
        """What is left at the end: some servers leave out the last blank line."""
        raw = bytes(self._buffer)
        self._buffer.clear()
        if raw.strip():
            yield parsed(raw + b"\n\n")


def parsed(raw: bytes) -> Event:
    """One event. Raises ValueError when its data looks like JSON and is not."""
    if raw.startswith(b"data:") and raw.find(b"\n") >= len(raw) - 2 and b"\r" not in raw:
        data = raw[5:].strip()  # nearly all are this plain
    else:
        lines = raw.replace(b"\r", b"\n").split(b"\n")
        data = b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
    if data == DONE:
        return Event(raw, None, done=True)
    if not data:
        return Event(raw, None)
    return Event(raw, whole(data))


def whole(data: bytes) -> Mapping[str, Json]:
    """A JSON object. Raises ValueError for anything else."""
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one error for everything malformed
    return cast("Mapping[str, Json]", found)


def framed(body: Mapping[str, Json], name: str = "") -> bytes:
    """`body` as one event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + json.dumps(body).encode() + b"\n\n"
