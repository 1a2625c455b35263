"""One try of one call: sent, read, counted; handed on as it comes when it is a stream.

Deadlines hold on connecting, on the first byte, between bytes and on the whole. What ends a stream is held back, so
that it is counted before the client sees its end and asks again; all that comes before goes on as it came.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

import anyio

from harness.model.base import Asked, Counted, Dialect, Tally
from harness.model.blackout import Blackout, Secret
from harness.model.faults import UNSURE, Fault, fault_of, is_page
from harness.model.sse import Event, Events, whole
from harness.model.tokens import tokens_asked
from harness.model.upstream import Answer, Upstream
from harness.policy.schema import ModelPolicy
from harness.records import Json, Reply
from harness.untrusted import line

MAX_REPLY = 64 << 20
MAX_ERROR = 1 << 20
# heads that come before any text: chat has one, Messages three, Responses four
_HEADS = 4


class Sink(Protocol):
    """Where a reply goes."""

    async def start(self, status: int, media: str) -> None:
        """The head; once."""
        ...

    async def chunk(self, data: bytes, *, last: bool = False) -> None:
        """A part of the body; the `last` one ends it."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent upstream."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    asked: Asked
    dialect: Dialect
    secret: Secret = field(default_factory=Secret, repr=False)

    def without_key(self, data: bytes) -> bytes:
        """`data` with the key blacked out, should an upstream repeat it: in an error, or in an echo of the request."""
        return self.secret.out_of(data)


@dataclass
class Trial:
    """One try. After `run`, `reply` is complete and `tail` what the client has not been given of it."""

    upstream: Upstream
    model: ModelPolicy
    request: Request
    sink: Sink
    tally: Tally = field(init=False)
    sent: bool = False
    started: bool = False
    tail: bytes = b""
    complete: bool = False
    _ready: bytearray = field(default_factory=bytearray)
    _body: bytearray = field(default_factory=bytearray)
    _events: int = 0
    reached: bool = True
    """Whether anything of it may have come to the upstream."""
    _done: bool = False

    def __post_init__(self) -> None:
        self.tally = self.request.dialect.tally(self.request.asked)

    async def run(self) -> Reply:
        """The whole reply. Raises Fault."""
        try:
            with anyio.fail_after(self.model.total_s):
                return await self._run()
        except TimeoutError:
            raise Fault(f"no whole answer within {self.model.total_s:g} s") from None
        except Fault as fault:
            self.reached = fault.reached
            self.sent = self.sent and fault.reached
            fault.reason = self.request.without_key(fault.reason.encode("utf-8", "replace")).decode()
            raise

    async def counted(self, most_in: int) -> tuple[Counted, bool]:
        """(what the try took, whether part of that is no word of the upstream's).

        A reply that came whole and does not say is estimated. Of one that was cut short, by whomever, nobody knows what
        it took: it counts at `most_in` and the most it may give, but for what the upstream had said by then.
        """
        if not self.sent:
            return Counted(0, 0), False
        told = self.tally.counted
        if not self.complete and not self.tally.last:
            ins = most_in if told.tokens_in is None else told.tokens_in
            outs = max(self.request.asked.most_out, told.tokens_out or 0)
            return Counted(ins, outs, told.cached_in, told.written_in), True
        if told.tokens_in is not None and told.tokens_out is not None:
            return told, False
        ins, outs = told.tokens_in, told.tokens_out
        if ins is None:
            ins = await tokens_asked(dict(self.request.asked.body), len(self.request.body))
        if outs is None:
            outs = await self.tally.text.tokens()
        return Counted(ins, outs, told.cached_in, told.written_in), True

    async def _run(self) -> Reply:
        request, model = self.request, self.model
        self.sent = True
        async with self.upstream.post(
            request.url, request.headers, request.body, connect_s=model.connect_s, first_byte_s=model.first_byte_s
        ) as answer:
            return await self._read(answer)

    async def _read(self, answer: Answer) -> Reply:
        media = self.request.without_key(answer.headers.get("content-type", "application/json").encode()).decode()
        status = answer.status
        if status >= 400:
            self.sent = status in UNSURE  # nobody bills a refusal
            async for part in self._parts(answer, MAX_ERROR):
                self._body += part
            self.sent = self.sent or (status == 500 and not _says_error(bytes(self._body)))
            raise fault_of(Reply(status, media, self.request.without_key(bytes(self._body))), answer.headers)
        if status >= 300:
            self.sent = False
            where = self.request.without_key(answer.headers.get("location", "nowhere").encode())
            raise Fault(f"HTTP {status}: it redirects to {line(where, 200)}", astray=True)
        if request_streams(self.request.asked, media):
            await self._stream(answer, media)
        else:
            await self._whole(answer)
        return Reply(status, media, bytes(self._body))

    async def _whole(self, answer: Answer) -> None:
        async for part in self._parts(answer, MAX_REPLY):
            self._body += part
        self._body = bytearray(self.request.without_key(bytes(self._body)))
        if is_page(answer.headers.get("content-type", ""), bytes(self._body)):
            raise Fault("it answers with a web page", astray=True)
        try:
            bodies = _bodies(bytes(self._body))
        except ValueError as error:
            raise Fault(f"the answer is malformed: {error}") from None
        for body in bodies:
            self.tally.take(body)
        told = self.tally.counted
        self.complete = told.tokens_in is not None and told.tokens_out is not None
        if not bodies or not self.request.dialect.usable(bodies[0]):
            raise Fault("the answer lacks what clients rely on (no choices)")
        self.complete = True
        self.tail = bytes(self._body)

    async def _stream(self, answer: Answer, media: str) -> None:
        events, blackout = Events(), Blackout(self.request.secret.key)
        try:
            async for part in self._parts(answer, MAX_REPLY):
                for event in events.feed(part):
                    self._take(event, blackout)
                await self._hand_on(media)
            for event in events.rest():
                self._take(event, blackout)
            for raw in blackout.rest():
                self._keep(raw)
        except ValueError as error:
            raise Fault(f"the stream is malformed: {error}") from None
        if not self.tally.finished:
            raise Fault("the stream was cut")
        # an end of the connection alone may have taken the usage that was still to come
        sentinel = self.request.dialect.name in {"chat", "completions"}
        self.complete = self.tally.last or self._done or not sentinel
        self.tail = bytes(self._ready) + self.tail

    def _take(self, event: Event, blackout: Blackout) -> None:
        self._done = self._done or event.done
        if event.body is not None:
            if "error" in event.body and "choices" not in event.body:
                said = self.request.without_key(_json(event.body))
                raise Fault("the stream says an error", reply=Reply(502, "application/json", said))
            known = self.tally.text.size
            self.tally.take(event.body)
            if self.tally.text.size > known:
                # another of several choices goes on: what was held back did not end the stream
                self._ready += self.tail
                self.tail = b""
            if self.request.asked.dropped_usage and event.body.get("choices") == []:
                return
        for raw in blackout.feed(event):
            self._keep(raw)

    def _keep(self, raw: bytes) -> None:
        """Put an event where it goes: on, or, once the reply has come to its end, behind the count."""
        raw = self.request.without_key(raw)
        self._body += raw
        self._events += 1
        if self.tally.finished:
            self.tail += raw
        else:
            self._ready += raw

    async def _hand_on(self, media: str) -> None:
        if not self._ready or not (self.started or self.tally.text.size or self._events > _HEADS):
            return  # until a client has been given something, another try can be made
        data, self._ready = bytes(self._ready), bytearray()
        if not self.started:
            self.started = True
            await self.sink.start(200, media)
        await self.sink.chunk(data)

    async def _parts(self, answer: Answer, most: int) -> AsyncIterator[bytes]:
        size = 0
        while part := await answer.part(self.model.idle_s):
            size += len(part)
            if size > most:
                raise Fault(f"the answer is longer than {most >> 20} MB", passing=False)
            yield part


def request_streams(asked: Asked, media: str) -> bool:
    """Whether the reply is to be read event by event. Gemini without alt=sse sends one JSON array instead."""
    return asked.stream and media.partition(";")[0].strip() == "text/event-stream"


def _bodies(data: bytes) -> list[Mapping[str, Json]]:
    if not data.lstrip().startswith(b"["):
        return [whole(data)]
    found = json.loads(data)
    return [cast("Mapping[str, Json]", one) for one in cast("list[object]", found) if isinstance(one, dict)]


def _says_error(data: bytes) -> bool:
    """Whether an upstream itself says that it failed, as against whatever stands in front of it."""
    try:
        return "error" in whole(data)
    except ValueError:
        return False


def _json(body: Mapping[str, Json]) -> bytes:
    return json.dumps(body).encode()
