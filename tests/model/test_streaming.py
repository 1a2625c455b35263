"""What a client of a stream sees, and when."""

import json

import anyio
import pytest
from model.gateways import CHAT, reached

from harness.errors import StorageError
from harness.model.base import MemoryJournal
from harness.testing.model_shapes import SHAPES
from harness.testing.scripted_model import ScriptedModel

STREAM = {**CHAT, "stream": True}
BODIES = {
    "chat/completions": STREAM,
    "completions": {"model": "m", "prompt": "say hello to me", "stream": True},
    "responses": {"model": "m", "input": "say hello to me", "stream": True},
    "messages": {**STREAM, "max_tokens": 100},
    "models/m:streamGenerateContent?alt=sse": {"contents": [{"parts": [{"text": "say hello to me"}]}]},
}
ENDS = {
    "chat/completions": '"stop"',
    "completions": '"stop"',
    "responses": "response.completed",
    "messages": "message_stop",
    "models/m:streamGenerateContent?alt=sse": '"STOP"',
}


class Gated(MemoryJournal):
    """A disk that lets nothing through until told."""

    def __init__(self):
        super().__init__()
        self.asked, self.open = anyio.Event(), anyio.Event()

    async def finish_call(self, call):
        self.asked.set()
        await self.open.wait()
        await super().finish_call(call)


@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_goes_on_to_its_end_at_once_and_is_counted_when_its_reader_asks_again(path):
    """The disk is behind; the budget is not, and what is written next is written behind it."""
    journal = Gated()
    prefix = "/v1beta/" if path.startswith("models") else "/v1/"
    budget = {"tokens_out": 8 + 3}
    async with (
        ScriptedModel("one two three") as model,
        reached(model, journal=journal, budget=budget, max_output_tokens=8) as (server, client),
    ):
        body = {**BODIES[path], "max_tokens": 8} if path == "messages" else BODIES[path]
        with anyio.fail_after(10):
            told = (await client.post(prefix + path, json=body)).text
            assert ENDS[path] in told
            assert journal.asked.is_set()
            assert [call.reply for call in await journal.calls()] == [None]
            used = server.gateway.allowance
            assert (used.used.tokens_out, used.held.tokens_out) == (3, 0)
            again = await client.post(prefix + path, json=body)
            assert again.status_code == 200
            journal.open.set()
            while any(call.reply is None for call in await journal.calls()):  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.01)
    assert len(await journal.calls()) == 2
    assert model.served.requests == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_disk_that_fails_behind_the_end_of_a_reply_stops_the_run(stream):
    class Full(MemoryJournal):
        async def finish_call(self, call):
            await anyio.sleep(0.05)
            raise StorageError("run.db", reason="no space left")

    async with ScriptedModel() as model, reached(model, journal=Full()) as (server, client):
        reply = await client.post("/v1/chat/completions", json={**CHAT, "stream": stream})
        with anyio.fail_after(5):
            await server.gateway.stopped.wait()
        with pytest.raises(StorageError):
            server.gateway.check()
        again = await client.post("/v1/chat/completions", json={**CHAT, "temperature": 0.5})
    assert reply.status_code == 200
    assert again.status_code == 503
    assert model.served.requests == 1


async def test_the_first_words_do_not_wait_for_the_next():
    gate = anyio.Event()
    async with ScriptedModel("one two three") as model, reached(model) as (_, client):
        stream = model._stream

        async def held(answer, shape, turn, mode):
            part = answer.part

            async def stopped(data):
                if b"two" in data:
                    await gate.wait()
                await part(data)

            answer.part = stopped
            await stream(answer, shape, turn, mode)

        model._stream = held
        with anyio.fail_after(10):
            async with client.stream("POST", "/v1/chat/completions", json=STREAM) as reply:
                parts = reply.aiter_raw()
                first = await anext(parts)
                gate.set()
                rest = b"".join([part async for part in parts])
    assert b"one" in first
    assert b"two" not in first
    assert b"[DONE]" in rest


def events(*bodies):
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)


def choice(index, text, reason=None):
    return {"choices": [{"index": index, "delta": {"content": text} if text else {}, "finish_reason": reason}]}


@pytest.fixture
def said(monkeypatch):
    """Make the scripted model's chat streams say these pieces, in turn."""
    streams = []
    monkeypatch.setattr(SHAPES["/chat/completions"], "pieces", lambda turn: streams.pop(0))
    return streams


async def test_one_of_several_choices_that_ends_first_does_not_hold_back_the_others(said):
    usage = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 6}}
    pieces = [choice(0, "a"), choice(0, "", "stop"), choice(1, "b"), choice(1, "c"), choice(1, "", "stop"), usage]
    said.append([events(piece) for piece in pieces] + [b"data: [DONE]\n\n"])
    journal = Gated()
    told = bytearray()
    async with ScriptedModel() as model, reached(model, journal=journal) as (server, client):

        async def read():
            async with client.stream("POST", "/v1/chat/completions", json={**STREAM, "n": 2}) as reply:
                async for piece in reply.aiter_raw():
                    told.extend(piece)

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            with anyio.fail_after(10):
                await journal.asked.wait()
                while b'"b"' not in told:  # noqa: ASYNC110 - the client tells nobody
                    await anyio.sleep(0.01)
            assert b"[DONE]" not in told
            journal.open.set()
        assert server.gateway.allowance.used.tokens_out == 6
    assert [json.loads(row[6:]) for row in told.decode().split("\n\n") if row[6:7] == "{"] == pieces[:-1]


@pytest.mark.parametrize("heads", [0, 1, 3])
async def test_a_stream_that_fails_before_it_said_anything_is_tried_again(said, heads):
    failed = {"error": {"message": "overloaded"}}
    head = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
    said.append([events(head)] * heads + [events(failed)])
    said.append([events(choice(0, "hello")), events(choice(0, "", "stop")), b"data: [DONE]\n\n"])
    async with ScriptedModel() as model, reached(model) as (_, client):
        told = (await client.post("/v1/chat/completions", json=STREAM)).text
    assert model.served.requests == 2
    assert "overloaded" not in told
    assert "hello" in told
    assert told.rstrip().endswith("[DONE]")


async def test_a_stream_of_ends_alone_arrives_whole(said):
    said.append([events(choice(0, "", "stop")), b"data: [DONE]\n\n"])
    async with ScriptedModel() as model, reached(model) as (_, client):
        told = (await client.post("/v1/chat/completions", json=STREAM)).text
    assert '"stop"' in told
    assert told.rstrip().endswith("[DONE]")


async def test_a_long_wait_is_kept_alive_with_comments(monkeypatch):
    monkeypatch.setattr("harness.model.server.KEEP_ALIVE_S", 0.1)
    async with ScriptedModel("hello there", delay_s=0.5) as model, reached(model) as (_, client):
        streamed = (await client.post("/v1/chat/completions", json=STREAM)).text
        whole = (await client.post("/v1/chat/completions", json=CHAT)).text
    assert streamed.startswith(": waiting\n\n")
    assert "hello" in streamed
    assert streamed.rstrip().endswith("[DONE]")
    assert json.loads(whole)["choices"]


async def test_a_failure_after_comments_is_told_as_an_event(monkeypatch):
    monkeypatch.setattr("harness.model.server.KEEP_ALIVE_S", 0.1)
    async with ScriptedModel(delay_s=0.5, modes=["400"]) as model, reached(model) as (_, client):
        reply = await client.post("/v1/chat/completions", json=STREAM)
    assert reply.status_code == 200
    assert "event: error\ndata: {" in reply.text
    assert "scripted 400" in reply.text
