"""The gateway against a real HTTP server, well-behaved and not."""

import json

import anyio
import httpx2
import pytest
from model.gateways import CHAT, KEY, client_of, opened, reached

from harness.errors import InputError, ModelError
from harness.model.base import Caller, MemoryJournal
from harness.model.blackout import texts
from harness.testing.model_shapes import Turn
from harness.testing.scripted_model import ScriptedModel

REQUESTS = {
    "chat": ("/v1/chat/completions", CHAT),
    "completions": ("/v1/completions", {"model": "m", "prompt": "say hello to me"}),
    "responses": ("/v1/responses", {"model": "m", "input": "say hello to me"}),
    "messages": ("/v1/messages", {**CHAT, "max_tokens": 100}),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "say hello to me"}]}]}),
    "embeddings": ("/v1/embeddings", {"model": "m", "input": "say hello to me"}),
}
STREAMING = [name for name in REQUESTS if name != "embeddings"]


def streamed(name):
    path, body = REQUESTS[name]
    if name == "gemini":
        return path.replace("generateContent", "streamGenerateContent") + "?alt=sse", body
    return path, {**body, "stream": True}


def spent(server):
    return server.gateway.allowance.used


def agrees(server, model):
    used = spent(server)
    served = model.served
    return (used.tokens_in, used.tokens_out) == (served.tokens_in, served.tokens_out) and not used.estimated


@pytest.mark.parametrize("name", REQUESTS)
async def test_whole_replies_arrive_unchanged_and_are_metered(name):
    path, body = REQUESTS[name]
    async with ScriptedModel("hello there my friend") as model, reached(model) as (server, client):
        reply = await client.post(path, json=body)
    assert reply.status_code == 200
    if name != "embeddings":
        assert "hello there my friend" in reply.text
    assert spent(server).requests == 1
    assert spent(server).tokens_in > 0
    assert agrees(server, model)


@pytest.mark.parametrize("name", STREAMING)
async def test_streams_arrive_piece_by_piece_and_are_metered(name):
    path, body = streamed(name)
    pieces = []
    async with (
        ScriptedModel("one two three four five", pace_s=0.01) as model,
        reached(model) as (server, client),
        client.stream("POST", path, json=body) as reply,
    ):
        assert reply.headers["content-type"].startswith("text/event-stream")
        pieces = [piece async for piece in reply.aiter_raw()]
    text = b"".join(pieces).decode()
    assert len(pieces) > 3
    for word in ("one", "two", "three", "four", "five"):
        assert word in text
    assert agrees(server, model)


async def test_a_stream_without_asked_usage_shows_none():
    path, body = streamed("chat")
    async with ScriptedModel() as model, reached(model) as (server, client):
        plain = (await client.post(path, json=body)).text
        asked = (await client.post(path, json={**body, "stream_options": {"include_usage": True}})).text
    assert '"choices": []' not in plain
    assert '"choices": []' in asked
    assert plain.rstrip().endswith("data: [DONE]")
    assert agrees(server, model)


@pytest.mark.parametrize("name", STREAMING)
@pytest.mark.parametrize("streaming", [False, True])
async def test_missing_usage_is_estimated_and_marked(name, streaming, monkeypatch):
    monkeypatch.setattr("harness.model.tokens.tokenizer", lambda: None)
    if name in {"messages", "gemini"}:
        pytest.skip("its shape always says")
    path, body = streamed(name) if streaming else REQUESTS[name]
    async with ScriptedModel("four bytes each word", modes=["no_usage"]) as model, reached(model) as (server, client):
        assert (await client.post(path, json=body)).status_code == 200
    assert spent(server).estimated
    assert spent(server).tokens_out == 5  # twenty bytes
    assert spent(server).tokens_in > 5


async def test_the_key_goes_upstream_in_the_dialects_own_header_and_nowhere_else():
    async with ScriptedModel() as model, reached(model, environment={"K": KEY}, api_key_env="K") as (server, client):
        replies = [await client.post(path, json=body) for path, body in REQUESTS.values()]
        told = json.dumps([call.reply.body.decode() for call in await server.gateway.journal.calls()])
    assert {key.removeprefix("Bearer ") for key in model.served.keys} == {KEY}
    assert KEY not in told
    assert all(KEY not in reply.text and KEY not in str(reply.headers) for reply in replies)
    assert KEY not in repr(server)
    assert KEY not in repr(server.gateway)


async def test_a_key_that_is_not_set_is_said_before_anything_is_called():
    async with ScriptedModel() as model:
        with pytest.raises(InputError, match="NOT_THERE is not set"):
            async with opened(model, environment={}, api_key_env="NOT_THERE"):
                pass


async def test_an_unknown_virtual_key_is_refused():
    async with ScriptedModel() as model, opened(model) as server, httpx2.AsyncClient(trust_env=False) as client:
        url = f"{server.url}/v1/chat/completions"
        assert (await client.post(url, json=CHAT)).status_code == 401
        key = server.key(Caller(1))
        server.revoke(key)
        assert (await client.post(url, json=CHAT, headers={"x-api-key": key})).status_code == 401
    assert model.served.requests == 0


@pytest.mark.parametrize("budget", [{"requests": 0}, {"tokens_in": 3}, {"tokens_out": 50}, {"usd": 0.0001}])
@pytest.mark.parametrize("name", STREAMING)
async def test_a_refusal_is_the_dialects_own_429(name, budget):
    path, body = REQUESTS[name]
    price = {"input": 1000, "output": 1000}
    async with (
        ScriptedModel() as model,
        reached(model, budget=budget, price=price, max_output_tokens=51) as (_server, client),
    ):
        reply = await client.post(path, json={key: value for key, value in body.items() if key != "max_tokens"})
    assert reply.status_code == 429
    error = reply.json()["error"]
    assert f"budget {next(iter(budget))}" in error["message"]
    if name == "messages":
        assert reply.json()["type"] == "error"
        assert error["type"] == "rate_limit_error"
    elif name == "gemini":
        assert error["status"] == "RESOURCE_EXHAUSTED"
    else:
        assert error["code"] == "insufficient_quota"
    assert model.served.requests == 0


async def test_a_reply_is_capped_so_that_its_worst_case_is_known():
    async with ScriptedModel("a b c d e f g h") as model, reached(model, max_output_tokens=3) as (server, client):
        for path, body in REQUESTS.values():
            await client.post(path, json={**body, **({"max_tokens": 100} if "max_tokens" in body else {})})
    assert spent(server).tokens_out == 3 * 5
    assert server.gateway.allowance.overrun.tokens_out == 0


@pytest.mark.parametrize("mode", ["500", "429", "empty", "malformed", "cut"])
async def test_what_passes_is_tried_again(mode):
    async with ScriptedModel(modes=[mode, mode]) as model, reached(model) as (server, client):
        reply = await client.post("/v1/chat/completions", json=CHAT)
    assert reply.status_code == 200
    assert reply.json()["choices"][0]["message"]["content"] == "hello there"
    assert model.served.requests == 3
    assert spent(server).requests == 3


async def test_a_server_that_never_answers_is_left_and_tried_again():
    async with ScriptedModel(modes=["hang"]) as model, reached(model, first_byte_s=0.3) as (_server, client):
        reply = await client.post("/v1/chat/completions", json=CHAT)
    assert reply.status_code == 200
    assert model.served.requests == 2


@pytest.mark.parametrize("mode", ["stall", "cut"])
async def test_a_stream_that_stops_is_ended_with_an_error_the_client_sees(mode):
    path, body = streamed("chat")
    text = "one two three four five six seven eight"
    async with ScriptedModel(text, modes=[mode]) as model, reached(model, idle_s=0.3) as (server, client):
        told = (await client.post(path, json=body)).text
    assert "one" in told
    assert "stream_cut" in told
    assert "[DONE]" not in told
    calls = await server.gateway.journal.calls()
    assert [call.reply for call in calls] == [None]
    assert spent(server).estimated


async def test_null_content_is_handed_on():
    async with ScriptedModel(modes=["null"]) as model, reached(model) as (_server, client):
        reply = await client.post("/v1/chat/completions", json=CHAT)
    assert reply.json()["choices"][0]["message"]["content"] is None


@pytest.mark.parametrize("mode", ["401", "404", "quota"])
async def test_what_does_not_pass_stops_at_once(mode):
    async with ScriptedModel(modes=[mode] * 9) as model, reached(model) as (server, client):
        first = await client.post("/v1/chat/completions", json=CHAT)
        second = await client.post("/v1/chat/completions", json={**CHAT, "temperature": 0.5})
    assert first.status_code == (429 if mode == "quota" else int(mode))
    assert second.status_code == 503
    assert model.served.requests == 2  # the call, and the plainest request there is
    assert isinstance(server.gateway.fault, ModelError)
    assert "strop doctor --model m" in server.gateway.fault.mend


async def test_a_bad_request_is_the_callers_own_and_stops_nothing():
    async with ScriptedModel(modes=["400"]) as model, reached(model) as (server, client):
        first = await client.post("/v1/chat/completions", json=CHAT)
        second = await client.post("/v1/chat/completions", json={**CHAT, "temperature": 0.5})
        broken = await client.post("/v1/chat/completions", content=b"{")
        no_list = await client.post("/v1/chat/completions", json={"model": "m", "messages": "hi"})
    assert [reply.status_code for reply in (first, second, broken, no_list)] == [400, 200, 400, 400]
    assert server.gateway.fault is None


async def test_an_upstream_that_stays_down_stops_the_run_when_patience_ends():
    async with ScriptedModel(modes=["500"] * 99) as model, reached(model, patience_s=1.2) as (server, client):
        reply = await client.post("/v1/chat/completions", json=CHAT)
    assert reply.status_code == 503
    assert isinstance(server.gateway.fault, ModelError)
    assert 2 <= model.served.requests <= 4


async def test_after_faults_in_a_row_one_call_at_a_time_tries():
    async with (
        ScriptedModel(modes=["500"] * 8, retry_after="0") as model,
        reached(model) as (server, client),
        anyio.create_task_group() as group,
    ):

        async def one(number):
            body = {**CHAT, "temperature": number / 100}
            replies.append((await client.post("/v1/chat/completions", json=body)).status_code)

        replies = []
        for number in range(8):
            group.start_soon(one, number)
    assert replies == [200] * 8
    assert not server.gateway.routes["m"].breaker.resting
    assert server.gateway.waiting == {}


async def test_the_same_call_is_paid_for_once_and_told_again():
    journal = MemoryJournal()
    path, body = streamed("chat")
    async with ScriptedModel(["first", "second"]) as model:
        async with opened(model, journal=journal) as server, client_of(server) as client:
            told = [(await client.post(path, json=body)).text for _ in range(2)]
        async with opened(model, journal=journal) as server, client_of(server) as client:
            again = [(await client.post(path, json=body)).text for _ in range(2)]
            assert server.gateway.replayed == 2
            assert agrees(server, model)
        async with opened(model, journal=journal, recorded_only=True) as server, client_of(server) as client:
            assert [(await client.post(path, json=body)).text for _ in range(2)] == told
            assert (await client.post(path, json=body)).status_code == 503
            assert server.gateway.fault is not None
    assert told == again
    assert "first" in told[0]
    assert "second" in told[1]
    assert model.served.requests == 2


async def test_a_call_cut_off_by_a_crash_counts_in_full_and_is_made_again():
    journal = MemoryJournal()
    async with ScriptedModel() as model:
        async with opened(model, journal=journal, max_output_tokens=40) as server, client_of(server) as client:
            finish, journal.finish_call = journal.finish_call, _nothing
            await client.post("/v1/chat/completions", json=CHAT)
            journal.finish_call = finish
        async with opened(model, journal=journal, max_output_tokens=40) as server, client_of(server) as client:
            assert spent(server).tokens_out == 40
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200
            assert spent(server).tokens_out == 42
        async with opened(model, journal=journal, max_output_tokens=40) as server:
            assert spent(server).tokens_out == 42
            assert server.gateway.allowance.held.tokens_out == 0
    assert len(await journal.calls()) == 1


async def _nothing(call):
    pass


async def test_a_caller_that_goes_away_ends_the_call_and_leaves_nothing_held():
    async with ScriptedModel(modes=["hang"]) as model, reached(model) as (server, client):
        with anyio.move_on_after(0.3):
            await client.post("/v1/chat/completions", json=CHAT)
        with anyio.fail_after(5):
            while server.gateway.allowance.held.requests:  # noqa: ASYNC110 - the gateway tells nobody
                await anyio.sleep(0.01)
    assert spent(server).requests == 1


async def test_a_link_needs_no_key_and_belongs_to_its_caller():
    async with ScriptedModel() as model, opened(model) as server:
        link = server.link(Caller(7, "task", "v3"))
        stream = await link.connect()
        body = json.dumps(CHAT).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        await stream.send(head.encode() + body)
        told = b""
        with anyio.fail_after(10):
            while b"hello there" not in told:
                told += await stream.receive()
        await stream.aclose()
        call = (await server.gateway.journal.calls())[0]
    assert (call.ticket, call.role, call.variant) == (7, "task", "v3")
    assert server.gateway.allowance.by_role["task"].requests == 1


async def test_names_an_agent_insists_on_reach_the_only_model():
    async with ScriptedModel() as model, opened(model, model="upstream-name") as server, client_of(server) as client:
        assert (await client.post("/v1/chat/completions", json={**CHAT, "model": "gpt-4o"})).status_code == 200
        assert [row["id"] for row in (await client.get("/v1/models")).json()["data"]] == ["m"]
        counted = await client.post("/v1/messages/count_tokens", json=CHAT)
    assert counted.json()["input_tokens"] > 5
    assert model.served.bodies[0]["model"] == "upstream-name"


async def test_a_path_nobody_serves_is_a_404_of_its_dialect():
    async with ScriptedModel() as model, reached(model) as (_server, client):
        replies = [await client.post(path, json={}) for path in ("/v1/audio/speech", "/v1beta/models/m:predict")]
    assert [reply.status_code for reply in replies] == [404, 404]
    assert replies[1].json()["error"]["code"] == 404


CALLS = [{"id": "call_1", "type": "function", "function": {"name": "run", "arguments": '{"cmd": "ls"}'}}]


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "gemini"])
async def test_tool_calls_arrive_whole_and_as_streams_and_are_metered(name):
    """In each dialect's own spelling, with the name and the arguments that the model gave."""
    async with ScriptedModel(lambda body: CALLS) as model, reached(model) as (server, client):
        path, body = REQUESTS[name]
        whole = (await client.post(path, json=body)).text
        path, body = streamed(name)
        pieces = (await client.post(path, json=body)).text
    assert spent(server).requests == 2
    assert agrees(server, model)
    for said in (whole, pieces):
        assert '"run"' in said
        assert "cmd" in said
        assert "ls" in said


def cut_at(monkeypatch, size):
    """Let the scripted model stream pieces of `size` letters instead of words."""

    def pieces(turn):
        return [turn.text[at : at + size] for at in range(0, len(turn.text), size)]

    monkeypatch.setattr(Turn, "words", property(pieces))


@pytest.mark.parametrize("name", STREAMING)
@pytest.mark.parametrize("size", [1, 7, 100])
async def test_a_key_that_an_upstream_repeats_in_pieces_is_blacked_out(name, size, monkeypatch):
    """Pieces are what a stream adds up to for its reader; the words around the key stay."""
    echoed = f"before{KEY}{KEY}after sk-test- once"
    path, body = streamed(name)
    cut_at(monkeypatch, size)
    environment = {"THE_KEY": KEY}
    async with (
        ScriptedModel(echoed) as model,
        reached(model, environment=environment, api_key_env="THE_KEY") as (server, client),
    ):
        said = (await client.post(path, json=body)).text
    events = [json.loads(row[5:]) for row in said.splitlines() if row.startswith("data:") and "[DONE]" not in row]
    told = {}
    for event in events:
        for place, text in texts(event):
            told[place] = told.get(place, "") + text
    assert any("before[key][key]after sk-test- once" in text for text in told.values())
    assert not any(KEY in text for text in told.values())
    assert agrees(server, model)
