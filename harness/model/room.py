"""Room for requests in the harness's memory: bounded for one body, for one caller and for all of them, before a byte of
it is parsed.

A caller who has too much under way is refused; where it is others who fill the room, it waits for them, for a while.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from harness.model.base import Caller

MB = 1 << 20
MAX_BODY = 32 * MB
OF_ONE, OF_ALL = 192 * MB, 512 * MB
WAIT_S = 60.0
IDLE_S, WHOLE_S = 20.0, 120.0
# of a body that stays: as it came, parsed, and as it goes on; text with other letters than ASCII takes up to four times
# as much parsed
_PLAIN, _WIDE = 3, 6
_STEP = MB
# what Python keeps for a list, for a table, and for another value in one
_LIST, _TABLE, _VALUE = 88, 240, 40

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class NoRoom(Exception):  # noqa: N818 - an answer to a client, and nothing that failed here
    """A refusal: an HTTP status and the words for it."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


@dataclass
class Room:
    """Bytes that requests under way take, by caller. `most` is the most that they ever took together."""

    of_one: int = OF_ONE
    of_all: int = OF_ALL
    wait_s: float = WAIT_S
    taken: int = 0
    most: int = 0
    _by_caller: dict[Caller, int] = field(default_factory=lambda: defaultdict(int))
    _freed: anyio.Event = field(default_factory=anyio.Event)

    async def take(self, caller: Caller, size: int) -> Place:
        """Room for `size` bytes; waits for others to give theirs back. Raises NoRoom."""
        self._check(caller, size)
        with anyio.move_on_after(self.wait_s):
            while self.taken + size > self.of_all:
                await self._freed.wait()
                self._check(caller, size)
        if self.taken + size > self.of_all:
            raise NoRoom(429, "rate_limit_exceeded", "the gateway is busy with other requests; try again")
        place = Place(self, caller)
        place.add(size)
        return place

    @asynccontextmanager
    async def body(self, caller: Caller, receive: Receive, declared: int | None) -> AsyncGenerator[bytes]:
        """The body of a request, with room for it while the block lasts. Raises NoRoom before the block."""
        place = await self.take(caller, _least(declared))
        try:
            raw = await _read(receive, place, declared)
            place.add(max(0, weight(raw) - place.size))
            yield raw
        finally:
            place.leave()

    def change(self, caller: Caller, more: int) -> None:
        """Take `more` bytes at once, or give them back. Raises NoRoom."""
        if more > 0:
            self._check(caller, more)
            if self.taken + more > self.of_all:
                raise NoRoom(429, "rate_limit_exceeded", "the gateway is busy with other requests; try again")
        self.taken += more
        self.most = max(self.most, self.taken)
        self._by_caller[caller] += more
        if not self._by_caller[caller]:
            del self._by_caller[caller]
        if more < 0:
            self._freed.set()
            self._freed = anyio.Event()

    def _check(self, caller: Caller, size: int) -> None:
        if size > min(self.of_one, self.of_all):
            raise NoRoom(
                413, "request_too_large", f"it would take {size // MB} MB of memory, more than anyone may have"
            )
        if self._by_caller.get(caller, 0) + size > self.of_one:
            raise NoRoom(429, "rate_limit_exceeded", "too much of yours is under way at once; wait for an answer first")


@dataclass
class Place:
    """What one request has of a room."""

    room: Room
    caller: Caller
    size: int = 0

    def add(self, more: int) -> None:
        """Take more, without waiting for it. Raises NoRoom."""
        self.room.change(self.caller, more)
        self.size += more

    def leave(self) -> None:
        """Give all of it back."""
        self.room.change(self.caller, -self.size)
        self.size = 0


def weight(raw: bytes) -> int:
    """About how many bytes of memory a JSON body takes while it is under way, worked out without parsing it."""
    wide = not raw.isascii() or b"\\u" in raw
    text = (_WIDE if wide else _PLAIN) * len(raw)
    values = _VALUE * (raw.count(b",") + raw.count(b":"))
    return 4096 + text + values + _LIST * raw.count(b"[") + _TABLE * raw.count(b"{")


async def _read(receive: Receive, place: Place, declared: int | None) -> bytes:
    """The body of a request, empty when its client went away; `place` has room for the `declared` bytes of it.

    Raises NoRoom, also for a body that does not come in time.
    """
    parts, roomy = bytearray(), _STEP if declared is None else declared
    with anyio.move_on_after(WHOLE_S):
        while True:
            message = None
            with anyio.move_on_after(IDLE_S):
                message = await receive()
            if message is None:
                break
            if message["type"] == "http.disconnect":
                return b""
            parts += message.get("body", b"")
            if len(parts) > MAX_BODY:
                raise _too_large()
            if len(parts) > roomy:
                place.add(_PLAIN * _STEP)
                roomy += _STEP
            if not message.get("more_body"):
                return bytes(parts)
    raise NoRoom(408, "timeout", f"the request did not come whole within {WHOLE_S:g} s, or paused for {IDLE_S:g} s")


def _least(declared: int | None) -> int:
    """The room that a body takes at least, of so many bytes or of any number. Raises NoRoom."""
    if declared is not None and declared > MAX_BODY:
        raise _too_large()
    return _PLAIN * (_STEP if declared is None else declared)


def _too_large() -> NoRoom:
    return NoRoom(413, "request_too_large", f"more than {MAX_BODY // MB} MB")
