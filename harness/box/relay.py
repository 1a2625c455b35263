"""Model traffic of a box, host side: every connection that something in the box makes to its loopback port becomes one
to the gateway, byte for byte, over the box's own wire. No key goes in: the link itself says whose calls these are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import anyio
from anyio.abc import ByteStream, TaskGroup

from harness.box import wire
from harness.errors import InfraError

WINDOW = 1 << 18  # the guest's
MOST = 256
NO_KEY = "none-needed-in-a-box"
_T = TypeVar("_T")


class Link(Protocol):
    """A way to the gateway for one caller."""

    async def connect(self) -> ByteStream:
        """A new connection, speaking HTTP."""
        ...


def environment(port: int) -> dict[str, str]:
    """What clients of every vendor look for, pointing at the box's own loopback."""
    root = f"http://127.0.0.1:{port}"
    return {
        "OPENAI_BASE_URL": f"{root}/v1",
        "OPENAI_API_BASE": f"{root}/v1",
        "OPENAI_API_KEY": NO_KEY,
        "ANTHROPIC_BASE_URL": root,
        "ANTHROPIC_API_KEY": NO_KEY,
        "GOOGLE_GEMINI_BASE_URL": root,
        "GEMINI_API_KEY": NO_KEY,
        "GOOGLE_API_KEY": NO_KEY,
        "STROP_GATEWAY": root,
        "NO_PROXY": "127.0.0.1,localhost",
    }


@dataclass
class _Connection:
    """What the box has said and the gateway has not heard yet, and how much may still be said to the box."""

    parts: list[bytes] = field(default_factory=list[bytes])
    waiting: int = 0
    ended: bool = False
    credit: int = WINDOW
    changed: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class Relay:
    """Carries the connections of one box while a command runs in it."""

    def __init__(self, link: Link, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._link = link
        self._send = send
        self._group: TaskGroup | None = None
        self._open: dict[int, _Connection] = {}

    async def during(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of `work`; connections are carried while it runs, and end with it."""
        result: list[_T] = []
        failure: list[Exception] = []
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                result.append(await work)
            except Exception as error:
                failure.append(error)  # raised below as it is, not as a group of one
            finally:
                self._group = None
                self._open.clear()
                group.cancel_scope.cancel()
        if failure:
            raise failure[0]
        return result[0]

    def take(self, frame: wire.Frame) -> None:
        """One frame from the box. Raises InfraError for what an honest worker would not send."""
        kind, channel, payload = frame
        if kind == wire.OPENED:
            self._opened(channel)
            return
        connection = self._open.get(channel)
        if connection is None:
            return
        if kind == wire.BYTES:
            connection.waiting += len(payload)
            if connection.waiting > WINDOW:
                raise InfraError("the box's worker sent more than its window")
            connection.parts.append(payload)
        elif kind == wire.SHUT:
            connection.ended = True
        elif kind == wire.CREDIT and len(payload) == 4:
            connection.credit = min(WINDOW, connection.credit + int.from_bytes(payload))
        elif kind == wire.CLOSED:
            del self._open[channel]
            connection.scope.cancel()
        else:
            raise InfraError("the box's worker sent a relay frame that says nothing")
        connection.wake()

    def _opened(self, channel: int) -> None:
        if channel in self._open or len(self._open) >= MOST:
            raise InfraError("the box's worker opened a connection twice, or too many")
        if self._group is not None:
            connection = self._open[channel] = _Connection()
            self._group.start_soon(self._carry, channel, connection)

    async def _carry(self, channel: int, connection: _Connection) -> None:
        with connection.scope:
            try:
                stream = await self._link.connect()
                try:
                    async with anyio.create_task_group() as both:
                        both.start_soon(self._inwards, channel, connection, stream)
                        await self._outwards(channel, connection, stream)
                        both.cancel_scope.cancel()
                finally:
                    with anyio.CancelScope(shield=True):
                        await stream.aclose()
            except* (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, InfraError):
                pass  # the connection ends, as connections do; a broken wire is the reader's to report
        if self._open.pop(channel, None) is not None:
            with anyio.CancelScope(shield=True):
                await self._quietly(wire.encode(wire.CLOSED, channel))

    async def _inwards(self, channel: int, connection: _Connection, stream: ByteStream) -> None:
        """From the box to the gateway."""
        while True:
            while connection.parts:
                data = b"".join(connection.parts)
                connection.parts.clear()
                await stream.send(data)
                connection.waiting -= len(data)
                await self._send(wire.encode(wire.CREDIT, channel, len(data).to_bytes(4)))
            if connection.ended:
                await stream.send_eof()
                return
            await connection.changed.wait()

    async def _outwards(self, channel: int, connection: _Connection, stream: ByteStream) -> None:
        """From the gateway to the box, until the gateway has said all."""
        while True:
            while not connection.credit:
                await connection.changed.wait()
            try:
                data = await stream.receive(min(wire.CHUNK, connection.credit))
            except anyio.EndOfStream:
                await self._send(wire.encode(wire.SHUT, channel))
                return
            connection.credit -= len(data)
            await self._send(wire.encode(wire.BYTES, channel, data))

    async def _quietly(self, data: bytes) -> None:
        try:
            with anyio.move_on_after(5.0):
                await self._send(data)
        except InfraError:
            pass
