"""What requests under way take of the harness's memory: bounded for one, for one box, for all, and in time."""

import json
import socket
import sys

import anyio
import anyio.to_thread
import pytest
from model.gateways import CHAT, client_of, opened

from harness.model import room
from harness.model.base import TASK, Caller
from harness.model.room import MAX_BODY, MB, NoRoom, Room, weight
from harness.testing.scripted_model import ScriptedModel

CHATS = "/v1/chat/completions"


def box(number):
    return Caller(number, TASK, f"tree{number}/screen/visible/0")


def padded(size, number=0):
    return json.dumps({**CHAT, "user": f"{number}", "pad": "x" * size}).encode()


HOARD = """
import json, resource, sys, threading, urllib.error, urllib.request
import anyio
from harness.model.base import Caller, MemoryJournal
from harness.model.gateway import open_gateway
from harness.model.server import serve
from harness.policy.schema import BudgetPolicy, ModelPolicy

def peak():
    with open("/proc/self/status") as told:
        return next(int(line.split()[1]) // 1024 for line in told if line.startswith("VmHWM"))

async def main(size, declared):
    models = {"m": ModelPolicy(base_url="http://127.0.0.1:1/v1")}
    async with open_gateway(models, BudgetPolicy(tokens_in=2000), MemoryJournal()) as gateway, serve(gateway) as server:
        keys = [server.key(Caller(n, "task", f"{n}/screen/visible/0")) for n in range(12)]
        before = peak()
        # the clients are another process: what they hold is theirs
        words = [sys.executable, "-c", CLIENT, server.url, str(size), declared, *keys]
        done = await anyio.run_process(words, stderr=None)
        print(json.dumps({"grew": peak() - before, "said": json.loads(done.stdout), "most": server.room.most >> 20,
                          "left": server.room.taken}))

CLIENT = '''
import http.client, json, sys, threading, urllib.parse
url, size, declared, *keys = sys.argv[1:]
body = b'{"model": "m", "messages": [{"role": "user", "content": "' + b"x" * int(size) + b'"}]}'
said = []
def post(key):
    link = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=100)
    try:
        chunks = body if declared == "yes" else (body[at:at + 65536] for at in range(0, len(body), 65536))
        link.request("POST", "/v1/chat/completions", chunks, {"authorization": "Bearer " + key})
        reply = link.getresponse()
        said.append([reply.status, reply.read().decode()[:200]])
    except OSError as error:
        said.append([0, str(error)])
threads = [threading.Thread(target=post, args=(key,)) for key in keys]
[one.start() for one in threads]
[one.join() for one in threads]
print(json.dumps(said))
'''
anyio.run(main, int(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize(("size", "declared"), [(50 * MB, "yes"), (50 * MB, "no"), (30 * MB, "yes")])
async def test_twelve_boxes_that_post_tens_of_megabytes_do_not_fill_the_hosts_memory(size, declared):
    done = await anyio.run_process([sys.executable, "-c", HOARD, str(size), declared], stderr=None)
    told = json.loads(done.stdout)
    assert told["left"] == 0
    assert told["most"] <= 512
    if size > MAX_BODY:
        assert {status for status, _ in told["said"]} <= {413, 0, 429}  # 0: the client was still sending
        assert told["grew"] < 400  # 892 MB once
        assert any("more than 32 MB" in text for status, text in told["said"] if status == 413)
    else:
        # each was read and found too dear for the budget, a few at a time
        assert [status for status, _ in told["said"]] == [429] * 12
        assert all("budget tokens_in" in text for _, text in told["said"])
        assert told["grew"] < 600


async def test_where_others_fill_the_room_a_request_waits_and_one_callers_own_is_refused():
    async with (
        ScriptedModel("hello", delay_s=0.3) as model,
        opened(model, budget={}) as server,
    ):
        server.room = Room(of_one=2 * MB, of_all=3 * MB)
        said = []

        async def post(client, number):
            reply = await client.post(CHATS, content=padded(300_000, number))  # 0.9 MB each
            said.append((reply.status_code, reply.json().get("error", {}).get("message", ""), reply.headers))

        async def own(number, times):
            async with client_of(server, box(number)) as client, anyio.create_task_group() as group:
                for turn in range(times):
                    group.start_soon(post, client, 10 * number + turn)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(own, number, 1)
        assert [status for status, _, _ in said] == [200] * 8  # three at a time
        assert 2 * MB < server.room.most <= 3 * MB
        said.clear()
        await own(9, 4)
    refusals = [(text, headers["retry-after"]) for status, text, headers in said if status == 429]
    assert len([status for status, _, _ in said if status == 200]) == 2
    assert refusals == [("too much of yours is under way at once; wait for an answer first", "1")] * 2
    assert server.room.taken == 0


async def test_who_waits_too_long_for_others_is_told_to_come_again():
    async with ScriptedModel("hello", modes=["hang"]) as model, opened(model, budget={}, first_byte_s=2) as server:
        server.room = Room(of_one=2 * MB, of_all=2 * MB, wait_s=0.1)
        async with client_of(server, box(1)) as first, client_of(server, box(2)) as second:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: first.post(CHATS, content=padded(500_000)))
                while not server.room.taken:  # noqa: ASYNC110 - a server tells nobody when a request begins
                    await anyio.sleep(0.01)
                reply = await second.post(CHATS, content=padded(500_000))
                group.cancel_scope.cancel()
            assert reply.status_code == 429
            assert "busy with other requests" in reply.json()["error"]["message"]
        with anyio.fail_after(10):
            while server.room.taken:  # noqa: ASYNC110 - nor when a client that went away gives its room back
                await anyio.sleep(0.01)


@pytest.mark.parametrize("path", [CHATS, "/v1/messages", "/v1/responses", "/v1beta/models/m:generateContent"])
async def test_what_would_blow_up_when_parsed_is_refused_in_the_dialects_own_form(path):
    async with ScriptedModel("hello") as model, opened(model, budget={}) as server, client_of(server) as client:
        for raw in (b'{"model": "m", "x": [' + b"[]," * (3 * MB) + b"0]}", b'{"x": "' + b"x" * (33 * MB) + b'"}'):
            reply = await client.post(path, content=raw)
            assert reply.status_code == 413
            assert "error" in reply.json()
        assert server.room.taken == 0
    assert model.served.requests == 0


def test_weight_is_what_python_takes():
    import tracemalloc

    for raw in (
        b"[" + b"[]," * 100_000 + b"0]",
        b"[" + b"{}," * 100_000 + b"0]",
        b'[{"a":1},' * 1 + b'{"a":[1.5,2.5]},' * 50_000 + b"0]",
        b"[" + b"1.25," * 200_000 + b"0]",
        b'["' + b"x" * 1_000_000 + b'"]',
        b'["' + b"x" * 1_000_000 + "\N{GRINNING FACE}".encode() + b'"]',
        b'["' + b"x" * 1_000_000 + rb"\ud83d\ude00" + b'"]',
    ):
        tracemalloc.start()
        try:
            held = [json.loads(raw), json.dumps(json.loads(raw), ensure_ascii=False).encode()]
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held
        assert taken + len(raw) <= weight(raw) <= 6 * (taken + len(raw)), raw[:20]


async def test_a_body_that_dribbles_in_is_given_up(monkeypatch):
    monkeypatch.setattr(room, "IDLE_S", 0.3)
    async with ScriptedModel("hello") as model, opened(model, budget={}) as server:
        key, port = server.key(box(1)), int(server.url.rpartition(":")[2])
        head = f"POST {CHATS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-length: 1000000\r\n\r\n"

        def dribble():
            with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
                link.sendall(head.encode() + b'{"model"')
                said = b""
                while part := link.recv(65536):
                    said += part
                return said

        links = [None] * 20
        async with anyio.create_task_group() as group:

            async def one(number):
                links[number] = await anyio.to_thread.run_sync(dribble)

            for number in range(20):
                group.start_soon(one, number)
        assert server.room.most == 20 * 3_000_000
        assert server.room.taken == 0
    for said in links:
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"did not come whole" in said


async def test_a_body_that_takes_too_long_in_all_is_given_up(monkeypatch):
    monkeypatch.setattr(room, "WHOLE_S", 0.3)
    place = await Room().take(box(1), 3 * MB)

    async def receive():
        await anyio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(NoRoom, match="did not come whole"):
        await room._read(receive, place, MB)


async def test_a_client_that_asked_too_much_may_ask_again():
    async with ScriptedModel("hello") as model, opened(model, budget={}) as server, client_of(server) as client:
        reply = await client.post(CHATS, content=padded(33 * MB))
        assert reply.status_code == 413
        assert (await client.post(CHATS, json=CHAT)).status_code == 200  # over the same connection
