"""Clients in a box reach a gateway on loopback, over nothing but the box's wire."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from model.gateways import opened
from support.engine import image, needs_docker

from harness.box.base import BoxSpec, Command
from harness.box.choose import choose
from harness.errors import ExecTimeoutError
from harness.limits import Limits
from harness.model.base import Caller
from harness.testing.scripted_model import ScriptedModel

BACK_ENDS = ["embedded", "process"]
ASK = """
import json, os, sys, threading, urllib.request

def ask(number, stream):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    said = [{"role": "user", "content": f"number {number} " + "x " * int(sys.argv[2])}]
    body = json.dumps({"model": "m", "messages": said, "stream": stream}).encode()
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, key), timeout=60) as reply:
        told[number] = reply.read().decode()

told = {}
threads = [threading.Thread(target=ask, args=(n, n % 2 == 1)) for n in range(int(sys.argv[1]))]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps([told[n] for n in sorted(told)]))
"""


@pytest.fixture(params=BACK_ENDS)
def boxes(request):
    return choose(request.param)


@asynccontextmanager
async def attached(model, boxes, spec, caller, **settings):
    """(the scripted model, a gateway over it, a box whose calls are `caller`'s)."""
    async with model, opened(model, **settings) as server, boxes.open(spec) as box:
        await box.attach(server.link(caller))
        yield model, server, box


def asking(count, words=1):
    return Command(("python", "-c", ASK, str(count), str(words)), deadline_s=60)


async def test_calls_from_a_box_are_answered_and_metered_as_the_server_counts(boxes):
    async with attached(ScriptedModel("hello there", keep=False), boxes, BoxSpec("relay"), Caller(3, "task", "v2")) as (
        model,
        server,
        box,
    ):
        done = await box.exec(asking(2))
        again = await box.exec(asking(1))
    told = json.loads(done.stdout)
    assert done.exit_code == 0, done.stderr
    assert json.loads(told[0])["choices"][0]["message"]["content"] == "hello there"
    assert "[DONE]" in told[1]
    assert len(json.loads(again.stdout)) == 1
    used = server.gateway.allowance.by_role["task"]
    assert (used.requests, used.tokens_in, used.tokens_out) == (3, model.served.tokens_in, model.served.tokens_out)


async def test_large_requests_and_replies_pass_the_windows_both_ways(boxes):
    text = "word " * 120_000
    async with attached(
        ScriptedModel(text, keep=False),
        boxes,
        BoxSpec("relay", Limits(output_kb=8192)),
        Caller(1),
        max_output_tokens=10**6,
    ) as (model, _server, box):
        done = await box.exec(asking(1, 300_000))
    assert done.exit_code == 0, done.stderr
    assert json.loads(json.loads(done.stdout)[0])["choices"][0]["message"]["content"] == text.strip() + " "
    assert model.served.tokens_in > 300_000


async def test_many_at_once(boxes):
    async with attached(ScriptedModel("hello", keep=False), boxes, BoxSpec("relay", Limits(pids=64)), Caller(1)) as (
        model,
        _server,
        box,
    ):
        done = await box.exec(asking(24))
    assert len(json.loads(done.stdout)) == 24
    assert model.served.requests == 24


async def test_a_box_nobody_attached_has_no_gateway(boxes):
    async with boxes.open(BoxSpec("relay")) as box:
        done = await box.exec(Command(("python", "-c", "import os; print(os.environ.get('OPENAI_BASE_URL'))"), 20))
    assert done.stdout.strip() == b"None"


async def test_no_key_is_in_the_box():
    key = "sk-test-0123456789abcdefghij0123456789"
    look = (
        "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; env; ls -laR /work /tmp /run /etc"
    )
    async with attached(
        ScriptedModel(), choose("embedded"), BoxSpec("relay"), Caller(1), environment={"K": key}, api_key_env="K"
    ) as (_model, _server, box):
        done = await box.exec(Command(("sh", "-c", look), 20))
    assert b"OPENAI_API_KEY=none-needed-in-a-box" in done.stdout
    assert key.encode() not in done.stdout
    assert b"sk-" not in done.stdout


async def test_a_command_killed_in_the_middle_of_a_call_leaves_a_box_that_works(boxes):
    async with attached(ScriptedModel(modes=["hang"], keep=False), boxes, BoxSpec("relay"), Caller(1)) as (
        _model,
        server,
        box,
    ):
        with pytest.raises(ExecTimeoutError):
            await box.exec(Command(("python", "-c", ASK, "1", "1"), deadline_s=2))
        with anyio.fail_after(10):
            while server.gateway.allowance.held.requests:  # noqa: ASYNC110 - the gateway tells nobody
                await anyio.sleep(0.01)
        done = await box.exec(asking(1))
    assert done.exit_code == 0, done.stderr


async def test_a_client_that_hangs_up_and_one_that_never_reads(boxes):
    rude = """
import os, socket, urllib.parse
at = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
for _ in range(3):
    s = socket.create_connection((at.hostname, at.port)); s.sendall(b"POST /v1/chat"); s.close()
body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]}'
s = socket.create_connection((at.hostname, at.port))
s.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nhost: a\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
print(s.recv(12))
"""
    async with attached(
        ScriptedModel("word " * 100_000, keep=False), boxes, BoxSpec("relay"), Caller(1), max_output_tokens=10**6
    ) as (_model, _server, box):
        done = await box.exec(Command(("python", "-c", rude), 30))
        again = await box.exec(Command(("python", "-c", "print(1)"), 20))
    assert b"HTTP/1.1 200" in done.stdout, done.stderr
    assert again.stdout.strip() == b"1"


@needs_docker()
async def test_a_docker_box_carries_calls_too():
    from harness.box.docker import DockerBoxes

    script = ScriptedModel("hello there", keep=False)
    async with attached(script, DockerBoxes(image()), BoxSpec("relay"), Caller(1)) as (model, server, box):
        done = await box.exec(asking(4, 5))
    assert len(json.loads(done.stdout)) == 4, done.stderr
    used = server.gateway.allowance.used
    assert (used.tokens_in, used.tokens_out) == (model.served.tokens_in, model.served.tokens_out)
