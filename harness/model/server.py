"""The gateway over HTTP: on loopback for trusted code with a virtual key, over a box's wire for what runs in it.

A virtual key stands for one caller of one run and says nothing. A connection that comes out of a box needs none: it is
known by the wire it came over.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import uvicorn
from anyio.abc import ByteStream
from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse, Response
from uvicorn.server import ServerState

from harness.errors import StropError
from harness.model.base import Caller, refused
from harness.model.dialects import nearest
from harness.model.gateway import Gateway, give
from harness.model.listing import listing
from harness.model.room import NoRoom, Room
from harness.model.sse import whole
from harness.model.tokens import tokens_asked
from harness.records import Json

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
KEEP_ALIVE_S = 15.0
_COUNTS = ("/messages/count_tokens", ":countTokens")


@dataclass
class Server:
    """A gateway that can be reached. `url` is its root on loopback."""

    gateway: Gateway
    url: str = ""
    room: Room = field(default_factory=Room)
    _callers: dict[str, Caller] = field(default_factory=dict[str, Caller], repr=False)
    _state: ServerState = field(default_factory=ServerState)

    def key(self, caller: Caller) -> str:
        """A virtual key for `caller`: good on this gateway alone, for as long as it is open."""
        token = "strop-" + secrets.token_urlsafe(18)
        self._callers[token] = caller
        return token

    def revoke(self, key: str) -> None:
        """Make a virtual key worthless."""
        self._callers.pop(key, None)

    def link(self, caller: Caller) -> Link:
        """What a box's relay connects to; everything that comes over it is `caller`'s."""
        return Link(self, caller)

    def protocol(self, caller: Caller | None) -> Callable[[], asyncio.Protocol]:
        """A factory of HTTP connections whose requests are `caller`'s, or whose keys say whose they are."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self._serve(caller, scope, receive, send)

        config = uvicorn.Config(
            app,
            interface="asgi3",
            lifespan="off",
            ws="none",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
        )
        config.load()
        make = cast("Callable[..., asyncio.Protocol]", config.http_protocol_class)
        return lambda: make(config=config, server_state=self._state, app_state={})

    async def shut(self) -> None:
        """End every connection and whatever is still being answered."""
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = [task for task in self._state.tasks if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)

    async def _serve(self, caller: Caller | None, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, method = str(scope["path"]), str(scope["method"])
        response: Response | None = None
        if method in {"GET", "HEAD"}:
            response = self._listing(path, Headers(scope=scope))
        elif method != "POST":
            response = JSONResponse(nearest(path).error(405, "method_not_allowed", "POST only"), 405)
        else:
            caller = caller or self._callers.get(_token(scope))
            if caller is None:
                message = "no such virtual key on this gateway"
                response = JSONResponse(nearest(path).error(401, "invalid_api_key", message), 401)
        if response is not None:
            await response(scope, receive, send)
        elif caller is not None:
            await self._answer(caller, path, scope, receive, send)

    def _listing(self, path: str, headers: Headers) -> Response:
        found = listing(self.gateway.routes, path, anthropic="anthropic-version" in headers)
        if found is not None:
            return JSONResponse(found)
        if path in {"", "/", "/health", "/healthz"}:
            return JSONResponse({"ok": self.gateway.fault is None})
        return JSONResponse(nearest(path).error(404, "not_found", f"no {path[:200]} here"), 404)

    async def _answer(self, caller: Caller, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self.room.body(caller, receive, _length(scope)) as raw:
                if path.endswith(_COUNTS):
                    count = await tokens_asked(_readable(raw), len(raw))
                    await JSONResponse({"input_tokens": count, "totalTokens": count})(scope, receive, send)
                    return
                sink = _HttpSink(send, path, raw)
                async with anyio.create_task_group() as group:
                    group.start_soon(_attend, receive, sink, group.cancel_scope)
                    try:
                        query, headers = scope["query_string"].decode("latin-1"), dict(Headers(scope=scope))
                        await self.gateway.answer(caller, path, raw, sink, query=query, headers=headers)
                    except StropError as error:
                        # the journal cannot be written: no call may be made that nobody would remember
                        self.gateway.stop(error)
                        await give(sink, refused(nearest(path), 503, "unavailable", error.message))
                    await sink.end()
                    group.cancel_scope.cancel()
        except NoRoom as full:
            await _full(path, full)(scope, receive, send)


class _HttpSink:
    """A reply as ASGI messages. A stream that has to wait long for its start is kept alive with comments."""

    def __init__(self, send: Send, path: str, raw: bytes) -> None:
        self._send = send
        self._asked = path, raw
        self._begun = False
        self._failing = False
        self._ended = False
        self.quiet = True

    async def start(self, status: int, media: str) -> None:
        if self._begun:
            self._failing = status >= 400  # the head is gone already: what follows is told as an event
            return
        self._begun = True
        headers = [(b"content-type", media.encode("latin-1", "replace")), (b"cache-control", b"no-store")]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def chunk(self, data: bytes, *, last: bool = False) -> None:
        if self._ended:
            return  # the disk failed behind it: the run hears of that
        self.quiet = False
        self._ended = last
        if self._failing:
            data = b"event: error\ndata: " + data.replace(b"\n", b" ") + b"\n\n"
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def beat(self) -> None:
        """Tell a client that waits for a stream that it is not forgotten."""
        if not _streams(*self._asked):
            self.quiet = False  # a whole answer has no room for comments
            return
        await self.start(200, "text/event-stream; charset=utf-8")
        await self._send({"type": "http.response.body", "body": b": waiting\n\n", "more_body": True})

    async def end(self) -> None:
        if not self._ended:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class Link:
    """Connections to a gateway that all belong to one caller."""

    def __init__(self, server: Server, caller: Caller) -> None:
        self._make = server.protocol(caller)
        self.caller = caller

    async def connect(self) -> ByteStream:
        """A new connection, speaking HTTP."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(self._make, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        return _Pair(reader, writer)


class _Pair(ByteStream):
    """asyncio's two halves of a connection as one stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, max_bytes: int = 65536) -> bytes:
        try:
            data = await self._reader.read(max_bytes)
        except OSError:
            raise anyio.BrokenResourceError from None
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        try:
            self._writer.write(item)
            await self._writer.drain()
        except OSError:
            raise anyio.BrokenResourceError from None

    async def send_eof(self) -> None:
        with suppress(OSError):
            self._writer.write_eof()

    async def aclose(self) -> None:
        self._writer.close()
        with suppress(OSError), anyio.move_on_after(1.0, shield=True):
            await self._writer.wait_closed()


@asynccontextmanager
async def serve(gateway: Gateway) -> AsyncGenerator[Server]:
    """The gateway on a free port of loopback."""
    server = Server(gateway)
    listener = await asyncio.get_running_loop().create_server(server.protocol(None), "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            listener.close()
            await server.shut()


async def _attend(receive: Receive, sink: _HttpSink, scope: anyio.CancelScope) -> None:
    """End the call when its client goes away, and keep the client's patience until the answer begins."""
    while True:
        with anyio.move_on_after(KEEP_ALIVE_S if sink.quiet else math.inf):
            if (await receive())["type"] == "http.disconnect":
                scope.cancel()
                return
            continue
        if sink.quiet:
            await sink.beat()


def _full(path: str, full: NoRoom) -> Response:
    """A refusal for want of room or of time. Who is to come again is told when; who is late is left."""
    reply = refused(nearest(path), full.status, full.kind, full.message)
    headers = {429: {"retry-after": "1"}, 408: {"connection": "close"}}.get(full.status, {})
    return Response(reply.body, reply.status, headers, reply.media)


def _length(scope: Scope) -> int | None:
    """How long the body says that it is; None where it comes in chunks."""
    told = Headers(scope=scope).get("content-length", "")
    return int(told) if told.isdecimal() else None


def _token(scope: Scope) -> str:
    headers = Headers(scope=scope)
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    named = bearer or headers.get("x-api-key") or headers.get("x-goog-api-key")
    return named or QueryParams(scope["query_string"]).get("key") or ""


def _readable(raw: bytes) -> Json:
    try:
        return dict(whole(raw))
    except ValueError:
        return raw.decode("utf-8", "replace")


def _streams(path: str, raw: bytes) -> bool:
    if ":streamGenerateContent" in path:
        return True
    if b'"stream"' not in raw:
        return False
    try:
        return whole(raw).get("stream") is True
    except ValueError:
        return False
