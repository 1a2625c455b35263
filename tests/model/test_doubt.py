"""What an upstream does not answer in one box stops that call; what it answers nobody stops the run."""

import json

import anyio
import pytest
from model.gateways import CHAT, client_of, opened
from model.odd import CUT, CUT_STREAM, HANG, OK, error, picky, said

from harness.errors import ModelError
from harness.model.base import PING, Caller, MemoryJournal
from harness.model.gateway import Collected

PATH = "/v1/chat/completions"
ODD = {**CHAT, "user": "odd", "stop": "odd"}
SHAPES = {
    "hangs": HANG,
    "fails": error(500),
    "is refused the key": error(401, "no such key"),
    "is forbidden": error(403, "moderated"),
    "is not found": error(404),
    "is cut": CUT,
    "has no choices": said(200, {"choices": []}),
    "is no json": said(200, b"{"),
    "is a page": said(200, b"<html><body>hi</body></html>", "text/html"),
    "moves": said(302, b"", location="http://127.0.0.1:9/"),
    "has no money": error(402, "fewer tokens, please"),
}
QUICK = {"first_byte_s": 0.2, "idle_s": 0.2, "total_s": 2, "patience_s": 1.0, "connect_s": 1}


def odd(body):
    return body.get("stop") == "odd"


def plain(path, body):
    return PING in str(body)


def chosen(shape):
    return lambda path, body: shape if odd(body) else said(200, OK)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr("harness.model.paid._FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr("harness.model.paid._LONGEST_PAUSE_S", 0.1)


async def post(client, body, number=0):
    return await client.post(PATH, json={**body, "temperature": number / 1000})


@pytest.mark.parametrize("first", [True, False], ids=["first of all", "later"])
@pytest.mark.parametrize("name", SHAPES)
async def test_a_request_that_is_odd_fails_alone(name, first):
    async with picky(chosen(SHAPES[name])) as (server, model), opened(model, **QUICK) as gate:
        async with client_of(gate, Caller(1)) as one, client_of(gate, Caller(2)) as other:
            if not first:
                assert (await post(other, CHAT)).status_code == 200
            with anyio.fail_after(20):
                reply = await post(one, ODD)
            assert reply.status_code >= 400
            assert reply.json()["error"]["message"]
            assert (await post(other, CHAT, 1)).status_code == 200
            assert (await post(one, CHAT, 1)).status_code == 200
        assert gate.gateway.fault is None
        assert gate.gateway.waiting == {}
        assert gate.gateway.allowance.held.requests == 0
        assert gate.gateway.allowance.used.requests == len(server.asked)
    assert server.count(plain) <= 1


async def test_a_stream_that_is_always_cut_for_one_box_leaves_the_others_be():
    streams = {**ODD, "stream": True}
    async with picky(chosen(CUT_STREAM)) as (server, model), opened(model, **QUICK) as gate:
        async with client_of(gate, Caller(1)) as one, client_of(gate, Caller(2)) as other:
            with anyio.fail_after(20):
                for number in range(12):
                    assert "stream_cut" in (await post(one, streams, number)).text
                assert (await post(other, CHAT)).status_code == 200
        assert gate.gateway.fault is None
    assert server.count(plain) <= 3


@pytest.mark.parametrize("name", ["hangs", "fails", "is cut", "is refused the key"])
async def test_a_box_full_of_odd_requests_keeps_nobody_waiting_and_asks_little(name):
    """Sixteen of one box at once, again and again; another box asks all the while."""
    async with picky(chosen(SHAPES[name])) as (server, model), opened(model, **QUICK) as gate:
        async with client_of(gate, Caller(1)) as one, client_of(gate, Caller(2)) as other:
            took, done = [], []

            async def bad(number):
                for turn in range(3):
                    done.append((await post(one, ODD, number * 10 + turn)).status_code)

            async def good():
                for number in range(20):
                    began = anyio.current_time()
                    assert (await post(other, CHAT, number)).status_code == 200
                    took.append(anyio.current_time() - began)
                    await anyio.sleep(0.05)

            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(good)
                    for number in range(16):
                        group.start_soon(bad, number)
        assert gate.gateway.fault is None
        assert gate.gateway.allowance.used.requests == len(server.asked)
    assert len(done) == 48
    assert min(done) >= 400
    assert len(took) == 20
    assert max(took) < 5
    assert server.count(plain) <= 12


DEAD = {name: SHAPES[name] for name in ("hangs", "fails", "is cut", "is no json")}


@pytest.mark.parametrize("name", DEAD)
@pytest.mark.parametrize("good", [0, 3])
async def test_an_upstream_that_answers_nobody_stops_the_run_when_patience_ends(name, good):
    left = [good]

    def answer(path, body):
        left[0] -= 1
        return said(200, OK) if left[0] >= 0 else DEAD[name]

    async with picky(answer) as (server, model), opened(model, **QUICK) as gate, client_of(gate) as client:
        for number in range(good):
            assert (await post(client, CHAT, number)).status_code == 200
        began = anyio.current_time()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(post, client, ODD, 100 + number)
                await gate.gateway.stopped.wait()
        assert anyio.current_time() - began > 0.8
        with pytest.raises(ModelError, match="for 1 s"):
            gate.gateway.check()
    assert server.count(plain) <= 12


TURNED_AWAY = [(401, "no such key"), (403, "not for you"), (402, "no credit"), (404, "no such model")]


@pytest.mark.parametrize(
    ("code", "words", "good"),
    # what was there once is not a matter of the address
    [(code, words, good) for code, words in TURNED_AWAY for good in (0, 2) if not (good and code == 404)],
)
async def test_an_upstream_that_turns_everybody_away_stops_the_run_at_once(code, words, good):
    left = [good]

    def answer(path, body):
        left[0] -= 1
        return said(200, OK) if left[0] >= 0 else error(code, words)

    async with (
        picky(answer) as (server, model),
        opened(model, **{**QUICK, "patience_s": 60}) as gate,
        client_of(gate) as client,
    ):
        for number in range(good):
            assert (await post(client, CHAT, number)).status_code == 200
        assert (await post(client, CHAT, 100)).status_code == code
        with pytest.raises(ModelError, match=f"HTTP {code}: .*{words}"):
            gate.gateway.check()
        assert (await post(client, CHAT, 101)).status_code == 503
    assert len(server.asked) == good + 2


async def test_patience_counts_from_the_last_answer_of_anybody():
    """One waits for long on its own account when the upstream goes down; that is no reason to stop the run at once."""
    down = anyio.Event()

    def answer(path, body):
        if odd(body):
            return said(503, {"error": {"message": "busy"}})
        return error(500) if down.is_set() else said(200, OK)

    async with (
        picky(answer) as (_, model),
        opened(model, **{**QUICK, "patience_s": 2}) as gate,
        client_of(gate, Caller(1)) as one,
        client_of(gate, Caller(2)) as other,
        anyio.create_task_group() as group,
    ):
        group.start_soon(post, one, ODD)
        for number in range(8):
            await post(other, CHAT, number)
            await anyio.sleep(0.2)
        down.set()
        went_down = anyio.current_time()
        await gate.gateway.stopped.wait()
        assert anyio.current_time() - went_down > 1.2
        group.cancel_scope.cancel()


async def test_many_who_lose_patience_at_once_ask_once():
    """With a server that hangs, each question would take its deadline, one after the other."""
    async with picky(lambda path, body: HANG) as (server, model):
        async with (
            opened(model, **{**QUICK, "first_byte_s": 0.5, "patience_s": 0.6}) as gate,
            client_of(gate) as client,
        ):
            began = anyio.current_time()
            async with anyio.create_task_group() as group:
                for number in range(32):
                    group.start_soon(post, client, CHAT, number)
            took = anyio.current_time() - began
        with pytest.raises(ModelError):
            gate.gateway.check()
    assert server.count(plain) <= 4
    assert took < 8


async def test_a_server_that_finds_fault_with_the_plain_question_is_back():
    """Some models want more tokens than the few it is asked with."""
    answers = [error(500)] * 5

    def answer(path, body):
        if plain(path, body):
            return error(400, "could not finish: max_tokens reached")
        return answers.pop(0) if answers else said(200, OK)

    async with picky(answer) as (server, model), opened(model, **QUICK) as gate, client_of(gate) as client:
        with anyio.fail_after(10):
            assert (await post(client, CHAT)).status_code == 200
        assert gate.gateway.fault is None
        assert not gate.gateway.routes["m"].breaker.resting
    assert server.count(plain) == 1


async def test_an_endpoint_that_is_not_there_fails_the_call_that_asked_for_it():
    def answer(path, body):
        return said(200, OK) if path.endswith("/chat/completions") else error(404)

    async with picky(answer) as (server, model), opened(model, **QUICK) as gate, client_of(gate) as client:
        for path, body in (
            ("/v1/embeddings", {"model": "m", "input": "hi"}),
            ("/v1/responses", {"model": "m", "input": "hi"}),
            ("/v1/messages", CHAT),
        ):
            assert (await client.post(path, json=body)).status_code == 404
        assert gate.gateway.fault is None
        assert (await post(client, CHAT)).status_code == 200
    assert server.count(plain) <= 5


@pytest.mark.parametrize("plainly", [400, 200], ids=["of everything", "of all that is asked"])
async def test_constant_refusals_stop_a_run_in_which_nothing_was_answered(plainly):
    def answer(path, body):
        return said(200, OK) if plainly == 200 and PING in str(body) else error(400, "temperature is not supported")

    async with picky(answer) as (_, model), opened(model, **QUICK) as gate:
        gate.gateway.width = 2
        stopped_at = 0
        for ticket in range(1, 9):
            async with client_of(gate, Caller(ticket)) as client:
                assert (await post(client, CHAT, ticket)).status_code == 400
            if gate.gateway.fault is not None:
                stopped_at = ticket
                break
        with pytest.raises(ModelError, match=r"HTTP 400: .*temperature is not supported.*no call was answered yet"):
            gate.gateway.check()
        calls = await gate.gateway.journal.calls()
    assert stopped_at == (3 if plainly == 400 else 4)
    # asked again when the run is resumed
    assert [call.ticket for call in calls if call.reply is None] == [stopped_at]


async def test_constant_refusals_of_one_box_stop_nothing_once_another_was_answered():
    async with picky(chosen(error(400))) as (server, model), opened(model, **QUICK) as gate:
        async with client_of(gate, Caller(1)) as one, client_of(gate, Caller(2)) as other:
            assert (await post(other, CHAT)).status_code == 200
            for number in range(20):
                assert (await post(one, ODD, number)).status_code == 400
        assert gate.gateway.fault is None
    assert server.count(plain) == 0


async def test_an_earlier_sessions_answer_is_remembered():
    journal = MemoryJournal()
    async with picky(chosen(error(404))) as (server, model):
        async with opened(model, journal=journal, **QUICK) as gate, client_of(gate) as client:
            assert (await post(client, CHAT)).status_code == 200
        async with opened(model, journal=journal, **QUICK) as gate, client_of(gate) as client:
            assert (await post(client, ODD)).status_code == 404
            assert gate.gateway.fault is None
    assert server.count(plain) == 0


async def test_what_failed_alone_is_told_again_and_never_asked_again():
    journal = MemoryJournal()
    async with picky(chosen(error(500, "shape"))) as (server, model):
        async with opened(model, journal=journal, **QUICK) as gate, client_of(gate) as client:
            told = await post(client, ODD)
            used = gate.gateway.allowance.used
        asked = len(server.asked)
        for only in (False, True):
            async with (
                opened(model, journal=journal, recorded_only=only, **QUICK) as gate,
                client_of(gate) as client,
            ):
                again = await post(client, ODD)
                assert (again.status_code, again.text) == (told.status_code, told.text)
                assert gate.gateway.allowance.used == used
    assert len(server.asked) == asked
    assert told.status_code == 500
    assert used.requests == asked


async def test_asking_stays_within_the_budget():
    async with (
        picky(chosen(error(401))) as (server, model),
        opened(model, budget={"requests": 2}, **QUICK) as gate,
        client_of(gate) as client,
    ):
        assert (await post(client, CHAT)).status_code == 200
        assert (await post(client, ODD)).status_code == 401
        assert gate.gateway.fault is None
        assert (await post(client, CHAT, 1)).status_code == 429
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/messages", "/v1/completions", "/v1beta/models/m:generateContent"]
)
async def test_each_dialect_asks_in_its_own_words(path):
    """A wrong key: after the call one plain request in the same dialect, and one in chat's."""
    bodies = {
        "/v1/messages": CHAT,
        "/v1/responses": {"model": "m", "input": "hi"},
        "/v1/completions": {"model": "m", "prompt": "hi"},
    }
    body = bodies.get(path, {"contents": [{"parts": [{"text": "hi"}]}]})
    async with (
        picky(lambda path, body: error(401)) as (server, model),
        opened(model, **QUICK) as gate,
        client_of(gate) as client,
    ):
        assert (await client.post(path, json=body)).status_code == 401
        assert gate.gateway.fault is not None
    paths = [path for path, _ in server.asked]
    assert paths[0] == paths[1]
    assert paths[2:] == ["/v1/chat/completions"]
    for _, asked in server.asked[1:]:
        assert PING in str(asked)
        assert "16" in str(asked)


@pytest.mark.parametrize("name", ["fails", "is cut", "is refused the key", "is not found"])
async def test_a_first_call_that_all_others_hang_on_stops_the_run_however_it_fails(name):
    """An optimizer's: what it asks is ours and not a box's, so nothing of it is odd."""
    async with picky(chosen(SHAPES[name])) as (_, model), opened(model, **QUICK) as gate:
        sink = Collected()
        with anyio.fail_after(20):
            await gate.gateway.answer(Caller(1), PATH, json.dumps(ODD).encode(), sink, wary=True)
        with pytest.raises(ModelError):
            gate.gateway.check()
        assert sink.status >= 400
        assert [call.reply for call in await gate.gateway.journal.calls()] == [None]
