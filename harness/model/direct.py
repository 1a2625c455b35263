"""A connection to an upstream: HTTP/1.1 straight over asyncio, for the common case that no proxy stands in between.

A seventh of the CPU that a general client takes for a stream of small events. It speaks no more than a model's answer
needs: a POST with a whole body, an answer with a length, in chunks, or until the connection ends.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import cast
from urllib.parse import quote, urlsplit

import anyio
import httptools
import httpx2

from harness.model.faults import Fault
from harness.version import VERSION

MAX_HEAD = 256 << 10
_HIGH_WATER = 1 << 20
# below the five seconds after which common servers close a connection: who asks then loses a race
_RESTS_S = 4.0
_SAFE = "/%:@!$&'()*+,;=~-._?"


class Direct:
    """One origin, and the connections to it that rest between calls."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        tls = _context() if parts.scheme == "https" else None
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if tls else 80)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._named = f"[{self._host}]" if ":" in self._host else self._host
        if parts.port is not None:
            self._named += f":{parts.port}"
        self._tls = tls
        self._resting: list[Connection] = []
        self._all: set[Connection] = set()

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, connect_s: float, first_byte_s: float
    ) -> AsyncGenerator[Connection]:
        """Send a request; the answer's head has come, its body is read from what is given. Raises Fault."""
        head = self._head(url, headers, len(body))
        connection = self._rested() or await self._connected(connect_s)
        try:
            await connection.ask(head, body, first_byte_s)
            yield connection
        finally:
            if connection.reusable:
                connection.rested_at = time.monotonic()
                self._resting.append(connection)
            else:
                connection.abort()

    async def aclose(self) -> None:
        """End every connection."""
        self._resting.clear()
        for connection in list(self._all):
            connection.abort()
        with anyio.move_on_after(1.0):
            for connection in list(self._all):
                await connection.gone.wait()

    def _head(self, url: str, headers: Mapping[str, str], size: int) -> bytes:
        target = quote(url.removeprefix(self._origin), safe=_SAFE) or "/"
        rows = {
            "host": self._named,
            "user-agent": f"strop/{VERSION}",
            "accept-encoding": "identity",
            "content-length": str(size),
            **headers,
        }
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in rows.items())]
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise Fault("a header holds a line break: is the key one line?", passing=False, final=True, reached=False)
        try:
            return "\r\n".join([*lines, "", ""]).encode("latin-1")
        except UnicodeEncodeError:
            raise Fault("a header is not Latin-1: is the key?", passing=False, final=True, reached=False) from None

    def _rested(self) -> Connection | None:
        while self._resting:
            connection = self._resting.pop()
            if connection.reusable and time.monotonic() - connection.rested_at < _RESTS_S:
                return connection
            connection.abort()
        return None

    async def _connected(self, connect_s: float) -> Connection:
        try:
            with anyio.fail_after(connect_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._all),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            raise Fault(f"no connection within {connect_s:g} s", reached=False) from None
        except (OSError, UnicodeError) as error:  # the second is a host no name server could know
            raise Fault(f"cannot connect: {str(error)[:200] or type(error).__name__}", reached=False) from None
        return connection


class Connection(asyncio.Protocol):
    """One connection, and the answer that is being read from it. Calls go over it one after the other.

    It is among `alive` for as long as it is open.
    """

    def __init__(self, alive: set[Connection]) -> None:
        self._alive = alive
        self.status = 0
        self.headers: dict[str, str] = {}
        self.gone = anyio.Event()
        self.rested_at = 0.0
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._asked = self._headed = self._whole = self._keeps = False
        self._head_size = 0
        self._fault = ""
        self._paused = False
        self._waiter: asyncio.Future[bool] | None = None

    # -- for who asks -----------------------------------------------------------------------------------
    @property
    def reusable(self) -> bool:
        """Whether another call may go over it."""
        return self._whole and self._keeps and not self._fault and not self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes, within_s: float) -> None:
        """Send a request and wait for the answer's head. Raises Fault."""
        self._parser = httptools.HttpResponseParser(self)
        self._headed = self._whole = self._keeps = False
        self._asked = True
        self._transport.write(head + body)
        give_up = time.monotonic() + within_s
        while not self._headed:
            if self._fault:
                raise Fault(self._fault)
            if not await self._news(give_up - time.monotonic()):
                raise Fault(f"no answer within {within_s:g} s")

    async def part(self, within_s: float) -> bytes:
        """What has come of the body since the last time; nothing at its end. Raises Fault."""
        while not self._parts:
            if self._fault:
                raise Fault(self._fault)
            if self._whole:
                return b""
            if not await self._news(within_s):
                raise Fault(f"the answer stopped within {within_s:g} s")
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """End it at once: an upstream that still writes is told so."""
        self._transport.abort()

    async def _news(self, within_s: float) -> bool:
        """Wait until something has happened; False when nothing did."""
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(max(0.0, within_s), self._wake, False)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self, news: bool = True) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(news)

    # -- asyncio's side ---------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._alive.add(self)

    def data_received(self, data: bytes) -> None:
        if not self._asked or self._whole:
            self._keeps = False  # nothing was asked: whatever this is, it is no answer
            self._transport.abort()
            return
        self._head_size += 0 if self._headed else len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(f"the answer is no HTTP ({str(error)[:200]})")
        if not self._headed and self._head_size > MAX_HEAD:
            self._break(f"the answer's head is longer than {MAX_HEAD} bytes")
        if self._size > _HIGH_WATER and not self._paused and not self._fault:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._headed and not self._whole and self._until_the_end() and exc is None:
            self._whole = True
        elif not self._whole:
            self._fault = self._fault or f"the connection broke: {exc or 'closed by the server'}"
        self._keeps = False
        self._alive.discard(self)
        self.gone.set()
        self._wake()

    def _break(self, reason: str) -> None:
        if not self._whole:  # what follows a whole answer only costs it the connection
            self._fault = self._fault or reason
        self._keeps = False
        self._transport.abort()

    def _until_the_end(self) -> bool:
        chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        return not chunked and "content-length" not in self.headers

    # -- the parser's side ------------------------------------------------------------------------------
    def on_message_begin(self) -> None:
        if self._whole:
            self._keeps = False
            return
        self.headers = {}
        self._head_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._headed:  # after that, they are a trailer
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._whole:
            return
        self.status = self._parser.get_status_code()
        self._headed = self.status >= 200

    def on_body(self, body: bytes) -> None:
        if self._headed and not self._whole:
            self._parts.append(body)
            self._size += len(body)

    def on_message_complete(self) -> None:
        if self._headed and not self._whole:
            self._whole = True
            self._keeps = self._parser.should_keep_alive()


@cache
def _context() -> ssl.SSLContext:
    """The roots that httpx2 trusts; reading them takes 20 ms, so all routes share them."""
    context = httpx2.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
