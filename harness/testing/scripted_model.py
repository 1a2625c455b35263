"""A deterministic model behind a real HTTP server, in every dialect, and as ill-behaved as asked.

It says what its script says, counts words as tokens, and keeps its own books: `served` is what a meter elsewhere must
agree with. `python -m harness.testing.scripted_model PORT TEXT...` serves it by hand.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

import anyio
import anyio.lowlevel
import uvicorn
from uvicorn.server import ServerState

from harness.testing.model_shapes import SHAPES, Shape, Turn, shape_of

Mode = Literal[
    "ok",
    "hang",
    "stall",
    "cut",
    "null",
    "empty",
    "malformed",
    "no_usage",
    "429",
    "500",
    "401",
    "404",
    "400",
    "quota",
    "long",
    "echo",
    "denied",
    "blank",
    "length",
    "huge",
    "endless",
]
_REFUSALS = {
    "quota": (429, "insufficient_quota"),
    "long": (400, "context_length_exceeded"),
    "echo": (400, "echo"),
    "denied": (401, "denied"),
}
ModeOf = Callable[[Mapping[str, Any]], Mode]
Script = Callable[[Mapping[str, Any]], "str | Sequence[Mapping[str, Any]]"]
Message = MutableMapping[str, Any]


@dataclass
class Served:
    """The server's own books."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    bodies: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    keys: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])


class ScriptedModel:
    """`async with ScriptedModel(...) as model: model.url`.

    `script` is what to say: one text, texts in turn (the last one for ever), or a function of the request, which may
    also give tool calls. `modes` are used up one a request; then every request is "ok"; or a function of the request
    says how it is served. `delay_s` is before each
    answer, `pace_s` before each piece of a stream. With a `key`, the list of models too is for those who send it.
    """

    def __init__(
        self,
        script: str | Sequence[str] | Script = "hello there",
        *,
        modes: Iterable[Mode] | ModeOf = (),
        retry_after: str = "0",
        delay_s: float = 0.0,
        pace_s: float = 0.0,
        port: int = 0,
        keep: bool = True,
        key: str = "",
    ) -> None:
        self._script = script
        self._key = key
        self.modes: deque[Mode] = deque(() if callable(modes) else modes)
        self.mode_of: ModeOf | None = modes if callable(modes) else None
        self._retry_after = retry_after
        self._delay_s = delay_s
        self._pace_s = pace_s
        self._port = port
        self._keep = keep
        self._turns = 0
        self._state = ServerState()
        self.served = Served()
        self.root = ""

    @property
    def url(self) -> str:
        """The base URL, /v1 included."""
        return f"{self.root}/v1"

    async def __aenter__(self) -> Self:
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            lifespan="off",
            ws="none",
            loop="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        config.load()
        make = cast("Callable[..., asyncio.Protocol]", config.http_protocol_class)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: make(config=config, server_state=self._state, app_state={}), "127.0.0.1", self._port, backlog=512
        )
        self.root = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        with anyio.CancelScope(shield=True):
            self._listener.close()
            for connection in list(self._state.connections):
                connection.shutdown()
            tasks = [task for task in self._state.tasks if not task.done()]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=5.0)

    async def _app(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        path = str(scope["path"])
        raw = bytearray()
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        answer = _Answer(send)
        if scope["method"] == "GET" and path.endswith("/models"):
            if self._key and (b"authorization", f"Bearer {self._key}".encode()) not in scope["headers"]:
                await answer.whole(401, {"error": {"message": "no such key"}})
                return
            await answer.whole(200, {"data": [{"id": "scripted-1"}, {"id": "scripted-2"}]})
            return
        shape = shape_of(path)
        if shape is None:
            await answer.whole(404, {"error": {"message": f"no {path} here"}})
            return
        body = cast("Mapping[str, Any]", json.loads(bytes(raw) or b"{}"))
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self._note(path, body, headers)
        mode: Mode = self.modes.popleft() if self.modes else self.mode_of(body) if self.mode_of else "ok"
        if self._delay_s:
            await anyio.sleep(self._delay_s)
        if mode.isdigit() or mode in _REFUSALS:
            await self._refuse(answer, mode)
        elif mode == "hang":
            await anyio.sleep_forever()
        else:
            await self._say(answer, shape, path, body, mode)

    def _note(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.served.requests += 1
        if self._keep:
            self.served.bodies.append(body)
            self.served.paths.append(path)
            key = headers.get("authorization") or headers.get("x-api-key") or headers.get("x-goog-api-key") or ""
            self.served.keys.append(key)

    async def _refuse(self, answer: _Answer, mode: str) -> None:
        status, code = _REFUSALS.get(mode) or (int(mode), "scripted")
        headers = {"retry-after": self._retry_after} if mode == "429" else {}
        said = f"no such key: {self.served.keys[-1]}" if mode in {"echo", "denied"} else f"scripted {mode}"
        await answer.whole(status, {"error": {"message": said, "code": code}}, headers)

    async def _say(self, answer: _Answer, shape: Shape, path: str, body: Mapping[str, Any], mode: Mode) -> None:
        said = self._next(body)
        text, tools = (said, ()) if isinstance(said, str) else ("", said)
        limit = shape.limit(body)
        words = text.split(" ")
        if limit is not None and len(words) > limit:
            words = words[:limit]
        tokens_in = len(shape.prompt(body).split())
        tokens_out = len(words) + sum(len(json.dumps(tool)) // 4 for tool in tools) if shape.writes else 0
        turn = Turn(" ".join(words), tuple(tools), str(body.get("model", "scripted")), tokens_in, tokens_out, mode)
        if mode != "cut":
            self.served.tokens_in += tokens_in
            self.served.tokens_out += tokens_out
        if mode in {"huge", "endless"}:
            await self._flood(answer, 100 if mode == "huge" else None)
        elif mode == "malformed":
            await answer.raw(200, "application/json", b'{"choices": [{"message"')
        elif shape.streams(path, body):
            await self._stream(answer, shape, turn, mode)
        elif mode in {"cut", "stall"}:
            data = json.dumps(shape.whole(turn)).encode()
            await answer.begin(200, "application/json", {"content-length": str(len(data))})
            await answer.part(data[: len(data) // 2])
            if mode == "stall":
                await anyio.sleep_forever()
            await answer.cut()
        else:
            await answer.whole(200, shape.whole(turn))

    async def _stream(self, answer: _Answer, shape: Shape, turn: Turn, mode: Mode) -> None:
        pieces = list(shape.pieces(turn))
        await answer.begin(200, "text/event-stream")
        for number, piece in enumerate(pieces):
            if mode in {"cut", "stall"} and number == len(pieces) // 2:
                if mode == "stall":
                    await anyio.sleep_forever()
                await answer.cut()
                return
            if self._pace_s:
                await anyio.sleep(self._pace_s)
            await answer.part(piece)
        await answer.end()

    async def _flood(self, answer: _Answer, megabytes: int | None) -> None:
        """A reply of so many megabytes, or one that never ends, a little at a time."""
        await answer.begin(200, "application/json")
        await answer.part(b'{"choices": [{"message": {"role": "assistant", "content": "')
        piece = b"word " * (200 if megabytes is None else 200_000)
        sent = 0
        while megabytes is None or sent < megabytes:
            await answer.part(piece)
            sent += 1
            if megabytes is None:
                await anyio.sleep(0.01)
        await answer.part(b'"}, "finish_reason": "stop"}]}')
        await answer.end()

    def _next(self, body: Mapping[str, Any]) -> str | Sequence[Mapping[str, Any]]:
        if callable(self._script):
            return self._script(body)
        if isinstance(self._script, str):
            return self._script
        turn = min(self._turns, len(self._script) - 1)
        self._turns += 1
        return self._script[turn]


class _Answer:
    """ASGI messages by name."""

    def __init__(self, send: Callable[[Message], Awaitable[None]]) -> None:
        self._send = send

    async def whole(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        await self.raw(status, "application/json", json.dumps(body).encode(), headers)

    async def raw(self, status: int, media: str, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        await self.begin(status, media, {"content-length": str(len(data)), **(headers or {})})
        await self._send({"type": "http.response.body", "body": data})

    async def begin(self, status: int, media: str, headers: Mapping[str, str] | None = None) -> None:
        pairs = {"content-type": media, **(headers or {})}
        head = [(name.encode(), value.encode()) for name, value in pairs.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": head})

    async def part(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        await anyio.lowlevel.checkpoint()  # uvicorn's send need not yield: a flood would starve the loop it shares

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def cut(self) -> None:
        """Close the connection in the middle of the body: the server's own protocol does so for an app that failed."""
        raise ConnectionAbortedError("cut on purpose")


async def _by_hand(port: int, texts: list[str]) -> None:
    async with ScriptedModel(texts or "hello there", port=port, keep=False) as model:
        print(model.url, flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    import argparse

    by_hand = argparse.ArgumentParser(description="A model that says TEXT after TEXT, the last one for ever.")
    by_hand.add_argument("port", type=int, nargs="?", default=0)
    by_hand.add_argument("text", nargs="*")
    given = by_hand.parse_args()
    anyio.run(_by_hand, given.port, given.text)


__all__ = ["SHAPES", "Mode", "Script", "ScriptedModel", "Served"]
