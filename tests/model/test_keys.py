"""No key leaves the process but in the header it is sent in, whatever an upstream does with it."""

import asyncio
import json
import logging
from types import SimpleNamespace

import httpx2
import pytest
from model.gateways import CHAT, client_of, opened, reached
from model.odd import picky
from model.test_gateway import REQUESTS, streamed
from model.test_upstream import Server

from harness.errors import ModelError
from harness.model.base import MemoryJournal
from harness.model.direct import Direct
from harness.model.preflight import preflight
from harness.model.upstream import General
from harness.policy.schema import ModelPolicy
from harness.testing.scripted_model import ScriptedModel

KEY = "sk-live-Zq3t7vB9/xYw2LmN4pKr8sJd6"
TOLD = f"Incorrect key: Bearer {KEY}"


def http(status, body, media="application/json", **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    rows = {"content-type": media, "content-length": len(data), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in rows.items())
    return [f"HTTP/1.1 {status} Told\r\n{head}\r\n".encode() + data]


def event(body):
    return b"data: " + json.dumps(body).encode() + b"\n\n"


SSE = "text/event-stream"
ERROR = {"error": {"message": TOLD, "code": "invalid_api_key"}}
ECHOES = {
    "400": http(400, ERROR, x_key=KEY),
    "401": http(401, ERROR),
    "403 as text": http(403, TOLD.encode(), "text/plain"),
    "404": http(404, ERROR),
    "429 without money": http(429, {"error": {"message": TOLD, "code": "insufficient_quota"}}),
    "500": http(500, ERROR),
    "slashes escaped": http(400, json.dumps(ERROR).replace("/", "\\/").encode()),
    "in its type": http(400, ERROR, f"application/json; key={KEY}"),
    "in the type of an answer": http(200, {"choices": [{"message": {"content": "hi"}}]}, f"application/json; k={KEY}"),
    "malformed": http(200, TOLD.encode() + b"{"),
    "no http": [f"{TOLD}\r\n\r\n".encode(), None],
    "odd head": [f"HTTP/1.1 200 OK\r\n{KEY}\r\n: {KEY}\r\n\r\n".encode(), None],
    "moved": http(302, b"", location=f"http://127.0.0.1:9/?key={KEY}"),
    "error in a stream": http(200, event(ERROR), SSE),
    "error after a word": http(200, event({"choices": [{"delta": {"content": "hi"}}]}) + event(ERROR), SSE),
    "malformed stream": http(200, f"data: {{{TOLD}\n\n".encode(), SSE),
    "comment in a stream": http(200, f": {KEY}\n\n".encode() + event({"choices": [{"finish_reason": "stop"}]}), SSE),
    "error that the stream names": http(200, b"event: error\n" + event({"type": "error", **ERROR}), SSE),
}


WAYS = [*((name, Direct) for name in REQUESTS if name != "embeddings"), ("chat", General)]


@pytest.mark.parametrize(("name", "way"), WAYS, ids=lambda given: getattr(given, "__name__", given))
@pytest.mark.parametrize("echo", ECHOES)
async def test_an_upstream_that_repeats_the_key_tells_it_to_nobody(echo, name, way, caplog, capfd, monkeypatch):
    monkeypatch.setattr("harness.model.paid._FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("harness.model.upstream._straight", lambda base_url: way is Direct)
    caplog.set_level(logging.DEBUG)
    answers = ECHOES[echo]
    server, journal, seen = Server(*[answers] * 50), MemoryJournal(), []
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        model = SimpleNamespace(url=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1")
        async with (
            opened(
                model, journal=journal, environment={"K": KEY}, api_key_env="K", patience_s=0.2, connect_s=1
            ) as gate,
            client_of(gate) as client,
        ):
            assert isinstance(gate.gateway.routes["m"].upstream, way)
            gate.gateway.watch = seen.append
            replies = []
            for path, body in (REQUESTS[name], streamed(name)):
                replies.append(await client.post(path, json=body))
            gateway = gate.gateway
            told = {
                "replies": [(reply.status_code, str(reply.headers), reply.text) for reply in replies],
                "journal": [repr(call) for call in await journal.calls()],
                "fault": [repr(gateway.fault), str(gateway.fault), str(getattr(gateway.fault, "mend", ""))],
                "seen": seen,
                "gateway": [repr(gate), gateway.waiting, gateway.usage()],
            }
    assert server.requests
    assert all(KEY.encode() in head for head, _ in server.requests)
    told["logs"] = [caplog.text, *capfd.readouterr()]
    for place, what in told.items():
        text = str(what)
        assert KEY not in text, place
        assert KEY.replace("/", "\\/") not in text.replace("\\\\", "\\"), place


async def test_nor_does_a_look_before_the_run(caplog, capfd, monkeypatch):
    """At level DEBUG the general client logs whole heads; what else uses it still does."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("K", KEY)
    moved = http(302, b"", location=f"http://x.example/?key={KEY}", x_key=KEY)
    async with picky(lambda path, body: moved) as (_, model):
        url = model.url
        with pytest.raises(ModelError) as caught:
            await preflight({"m": ModelPolicy(base_url=url, api_key_env="K")})
        ours = f"{caught.value} {caplog.text} {capfd.readouterr()}"
        caplog.clear()
        async with httpx2.AsyncClient(trust_env=False) as client:
            await client.get(url)
        theirs = caplog.text
    assert "[key]" in ours
    assert KEY not in ours
    assert KEY in theirs


@pytest.mark.parametrize("word", ["EMPTY", "ollama", "none"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_word_for_servers_that_want_no_key_is_no_secret(word, stream):
    async with (
        ScriptedModel(f"the {word} word, {word}") as model,
        reached(model, environment={"K": word}, api_key_env="K") as (_, client),
    ):
        said = (await client.post("/v1/chat/completions", json={**CHAT, "stream": stream})).text
    assert said.count(word) == 2
    assert "[key]" not in said
