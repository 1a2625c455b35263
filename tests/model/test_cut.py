"""Calls that are cut short, by whomever, against a server that bills what it was asked for when it comes in."""

import asyncio
import json
from collections import defaultdict
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace

import anyio
import numpy as np
import pytest
from model.gateways import CHAT, client_of, opened

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: 99999\r\n\r\n"
OPEN = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
SLOW = 30.0


def status(code, body=b"{}", media=b"application/json"):
    return b"HTTP/1.1 %d X\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (code, media, len(body), body)


def event(**body):
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def choice(text, reason=None):
    return event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": reason}])


HALF = choice("hello")
ENDED = HALF + choice("", "stop")
# what comes back, and then a wait or the end of the connection
CUTS = {
    "silence": [SLOW],
    "nothing": [],
    "half a head": [b"HTTP/1.1 200 OK\r\ncont"],
    "half a body": [HEAD % b"application/json" + b'{"choices": [{"mess'],
    "a stalled body": [HEAD % b"application/json" + b'{"choices": [{"mess', SLOW],
    "no json": [status(200, b'{"choices": [{"message"')],
    "no choices": [status(200, b'{"choices": []}')],
    "a broken stream": [HEAD % b"text/event-stream" + HALF],
    "a stalled stream": [HEAD % b"text/event-stream" + HALF, SLOW],
    "a stream that just ends": [OPEN + HALF],
    "an end before the usage": [OPEN + ENDED],
    "running usage": [OPEN + event(choices=[{"index": 0, "delta": {"content": "a"}}], usage={"completion_tokens": 1})],
    "an error in the stream": [OPEN + event(error={"message": "overloaded"})],
    "a proxy's word": [status(504, b"<html>", b"text/html")],
    "a proxy's 500": [status(500, b"<html>", b"text/html")],
}


class Biller:
    """Answers each request with the next of `answers`, and bills it in full first."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests = self.tokens_in = self.tokens_out = 0
        self.arrived = defaultdict(anyio.Event)

    async def serve(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(int(row[15:]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length:"))
            body = await reader.readexactly(size)
            self.requests += 1
            self.tokens_in += size // 2
            asked = json.loads(body)
            self.tokens_out += asked["max_tokens"]
            self.arrived[asked.get("temperature")].set()
            for part in self.answers.pop(0) if self.answers else [status(404)]:
                if isinstance(part, bytes):
                    writer.write(part)
                    await writer.drain()
                else:
                    await asyncio.sleep(part)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def billed(answers, **settings):
    """(a server that bills, a served gateway to it, a client)."""
    biller = Biller(answers)
    limits = {"first_byte_s": 0.15, "idle_s": 0.15, "total_s": 5, "patience_s": 0.3, "max_output_tokens": 500}
    async with await asyncio.start_server(biller.serve, "127.0.0.1", 0) as listener:
        model = SimpleNamespace(url=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1")
        async with opened(model, **{**limits, **settings}) as server, client_of(server) as client:
            yield biller, server, client


async def settled(server):
    with anyio.fail_after(10):
        while server.gateway.allowance.held.requests:  # noqa: ASYNC110 - the gateway tells nobody
            await anyio.sleep(0.01)
    return server.gateway.allowance.used


@pytest.mark.parametrize("name", CUTS)
async def test_a_call_that_is_cut_short_counts_in_full(name):
    body = {**CHAT, "stream": "stream" in name or "usage" in name}
    async with billed([CUTS[name]] * 9) as (biller, server, client):
        await client.post("/v1/chat/completions", json=body)
        used = await settled(server)
    assert biller.requests >= 1
    assert used.requests >= biller.requests
    assert used.tokens_in >= biller.tokens_in
    assert used.tokens_out >= biller.tokens_out
    assert used.estimated


async def asks(biller, client, body, *, leaves):
    """Post `body`; who `leaves` hangs up once the server has it."""
    async with anyio.create_task_group() as group:

        async def leave():
            await biller.arrived[body.get("temperature")].wait()
            group.cancel_scope.cancel()

        if leaves:
            group.start_soon(leave)
        await client.post("/v1/chat/completions", json=body)
        group.cancel_scope.cancel()


async def test_a_client_that_hangs_up_is_charged_what_may_be_billed():
    async with billed([[SLOW]], first_byte_s=20) as (biller, server, client):
        with anyio.fail_after(10):
            await asks(biller, client, CHAT, leaves=True)
        used = await settled(server)
    assert used.tokens_out >= biller.tokens_out >= 500
    assert used.tokens_in >= biller.tokens_in


async def test_what_a_cut_stream_had_said_it_took_is_believed():
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    cut = HEAD % b"text/event-stream" + ENDED + event(choices=[], usage=usage)
    async with billed([[cut]]) as (_, server, client):
        await client.post("/v1/chat/completions", json={**CHAT, "stream": True})
        used = await settled(server)
    assert (used.tokens_in, used.tokens_out, used.estimated) == (7, 3, False)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 429, 503, 529])
async def test_a_refusal_costs_nothing(code):
    async with billed([[status(code)]] * 9) as (biller, server, client):
        await client.post("/v1/chat/completions", json=CHAT)
        used = await settled(server)
    assert biller.requests >= 1
    assert (used.tokens_in, used.tokens_out) == (0, 0)


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_is_cut_what_is_settled_covers_what_is_billed_within_the_budget(seed):
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice(list(CUTS), 200)]
    budget = {"tokens_out": 20_000, "tokens_in": 9_000}
    async with billed([CUTS[name] for name in names], budget=budget, patience_s=2) as (biller, server, client):
        async with anyio.create_task_group() as group:
            for number in range(16):
                body = {**CHAT, "stream": bool(number % 2), "temperature": number / 100, "max_tokens": 100 + number}
                group.start_soon(partial(asks, biller, client, body, leaves=bool(rng.integers(2))))
        used = await settled(server)
    assert biller.requests >= 8
    assert biller.tokens_in <= used.tokens_in <= budget["tokens_in"]
    assert biller.tokens_out <= used.tokens_out <= budget["tokens_out"]
