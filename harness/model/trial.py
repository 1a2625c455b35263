"""One try of one call: sent, read, counted; handed on as it comes when it is a stream.

Deadlines hold on connecting, on the first byte, between bytes and on the whole. A stream's last event is held back, so
that the caller can make the reply durable before the client sees its end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

import anyio
import httpx2

from harness.model.base import Asked, Counted, Dialect, Tally
from harness.model.blackout import Blackout
from harness.model.faults import Fault, fault_of
from harness.model.sse import Event, Events, whole
from harness.model.tokens import estimate
from harness.policy.schema import ModelPolicy
from harness.records import Json, Reply

MAX_REPLY = 64 << 20
MAX_ERROR = 1 << 20


class Sink(Protocol):
    """Where a reply goes."""

    async def start(self, status: int, media: str) -> None:
        """The head; once."""
        ...

    async def chunk(self, data: bytes) -> None:
        """A part of the body."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent upstream."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    asked: Asked
    dialect: Dialect
    key: str = field(default="", repr=False)

    def without_key(self, data: bytes) -> bytes:
        """`data` with the key blacked out, should an upstream repeat it: in an error, or in an echo of the request."""
        return data.replace(self.key.encode(), b"[key]") if self.key else data


@dataclass
class Trial:
    """One try. After `run`, `reply` is complete and `tail` what the client has not been given of it."""

    client: httpx2.AsyncClient
    model: ModelPolicy
    request: Request
    sink: Sink
    tally: Tally = field(init=False)
    sent: bool = False
    started: bool = False
    tail: bytes = b""
    _body: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.tally = self.request.dialect.tally(self.request.asked)

    async def run(self) -> Reply:
        """The whole reply. Raises Fault."""
        try:
            with anyio.fail_after(self.model.total_s):
                return await self._run()
        except TimeoutError:
            raise Fault(f"no whole answer within {self.model.total_s:g} s") from None
        except httpx2.ConnectTimeout:
            self.sent = False
            raise Fault(f"no connection within {self.model.connect_s:g} s") from None
        except (httpx2.ConnectError, httpx2.UnsupportedProtocol, httpx2.PoolTimeout) as error:
            self.sent = False
            raise Fault(f"cannot connect: {_said(error)}") from None
        except httpx2.HTTPError as error:
            raise Fault(f"the connection broke: {_said(error)}") from None

    def counted(self) -> tuple[Counted, bool]:
        """(what the try took, whether part of that is estimated)."""
        if not self.sent:
            return Counted(0, 0), False
        told = self.tally.counted
        if told.tokens_in is not None and told.tokens_out is not None:
            return told, False
        ins = estimate(len(self.request.body)) if told.tokens_in is None else told.tokens_in
        outs = estimate(self.tally.text) if told.tokens_out is None else told.tokens_out
        return Counted(ins, outs, told.cached_in, told.written_in), True

    async def _run(self) -> Reply:
        request = self.request
        built = self.client.build_request("POST", request.url, content=request.body, headers=request.headers)
        self.sent = True
        with _within(self.model.first_byte_s, "no answer"):
            response = await self.client.send(built, stream=True)
        try:
            return await self._read(response)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(1.0):
                await response.aclose()

    async def _read(self, response: httpx2.Response) -> Reply:
        media = response.headers.get("content-type", "application/json")
        status = response.status_code
        if status >= 400:
            self.sent = False  # nobody bills a refusal
            async for part in self._parts(response, MAX_ERROR):
                self._body += part
            raise fault_of(Reply(status, media, self.request.without_key(bytes(self._body))), response.headers)
        if request_streams(self.request.asked, media):
            await self._stream(response, media)
        else:
            await self._whole(response)
        return Reply(status, media, bytes(self._body))

    async def _whole(self, response: httpx2.Response) -> None:
        async for part in self._parts(response, MAX_REPLY):
            self._body += part
        self._body = bytearray(self.request.without_key(bytes(self._body)))
        try:
            bodies = _bodies(bytes(self._body))
        except ValueError as error:
            raise Fault(f"the answer is malformed: {error}") from None
        for body in bodies:
            self.tally.take(body)
        if not bodies or not self.request.dialect.usable(bodies[0]):
            raise Fault("the answer lacks what clients rely on (no choices)")
        self.tail = bytes(self._body)

    async def _stream(self, response: httpx2.Response, media: str) -> None:
        events, blackout = Events(), Blackout(self.request.key)
        try:
            async for part in self._parts(response, MAX_REPLY):
                for event in events.feed(part):
                    await self._take(event, blackout, media)
            for event in events.rest():
                await self._take(event, blackout, media)
            for raw in blackout.rest():
                await self._hand_on(raw, media)
        except ValueError as error:
            raise Fault(f"the stream is malformed: {error}") from None
        if not self.tally.finished:
            raise Fault("the stream was cut")

    async def _take(self, event: Event, blackout: Blackout, media: str) -> None:
        if event.body is not None:
            if "error" in event.body and "choices" not in event.body:
                said = self.request.without_key(_json(event.body))
                raise Fault("the stream says an error", reply=Reply(502, "application/json", said))
            self.tally.take(event.body)
            if self.request.asked.dropped_usage and event.body.get("choices") == []:
                return
        for raw in blackout.feed(event):
            await self._hand_on(raw, media)

    async def _hand_on(self, raw: bytes, media: str) -> None:
        raw = self.request.without_key(raw)
        self._body += raw
        if self.tail:
            if not self.started:
                self.started = True
                await self.sink.start(200, media)
            await self.sink.chunk(self.tail)
        self.tail = raw

    async def _parts(self, response: httpx2.Response, most: int) -> AsyncIterator[bytes]:
        parts = response.aiter_bytes()
        size = 0
        while True:
            with _within(self.model.idle_s, "the answer stopped"):
                part = await anext(parts, None)
            if part is None:
                return
            size += len(part)
            if size > most:
                raise Fault(f"the answer is longer than {most} bytes", passing=False)
            yield part


class _within:  # noqa: N801 - reads as a verb
    """anyio.fail_after, with a Fault that says what did not come."""

    def __init__(self, seconds: float, what: str) -> None:
        self._scope = anyio.move_on_after(seconds)
        self._text = f"{what} within {seconds:g} s"

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *error: object) -> bool | None:
        swallowed = self._scope.__exit__(*error)  # pyright: ignore[reportArgumentType] - the same triple
        if self._scope.cancelled_caught:
            raise Fault(self._text)
        return swallowed


def request_streams(asked: Asked, media: str) -> bool:
    """Whether the reply is to be read event by event. Gemini without alt=sse sends one JSON array instead."""
    return asked.stream and media.partition(";")[0].strip() == "text/event-stream"


def _bodies(data: bytes) -> list[Mapping[str, Json]]:
    if not data.lstrip().startswith(b"["):
        return [whole(data)]
    found = json.loads(data)
    return [cast("Mapping[str, Json]", one) for one in cast("list[object]", found) if isinstance(one, dict)]


def _json(body: Mapping[str, Json]) -> bytes:
    return json.dumps(body).encode()


def _said(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__
