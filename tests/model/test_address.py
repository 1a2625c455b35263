"""Wrong addresses that people type: each is said before a run, by doctor, and at the first call at the latest."""

import asyncio
import shutil
import ssl
import subprocess
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest
from model.gateways import CHAT, KEY, client_of, opened
from model.odd import OK, Picky, error, picky, said
from support.toy import STROP, make_toy

from harness.cli.model_probe import probe_model
from harness.errors import ModelError
from harness.model.preflight import preflight
from harness.policy.schema import ModelPolicy

PAGE = said(200, b"<!doctype html><title>Welcome to nginx!</title>", "text/html; charset=utf-8")
LISTED = said(200, {"object": "list", "data": [{"id": "m"}]})


def with_v1(path, body):
    """A server that knows paths below /v1 alone."""
    if path == "/v1/models":
        return LISTED
    return said(200, OK) if path == "/v1/chat/completions" else error(404, "Not Found")


def moved(path, body):
    return said(307, b"", location=f"https://api.example/v1{path.removeprefix('/v1')}")


# how the server answers, what is typed behind its root, what is said, and what to do
WRONG = {
    "no /v1": (with_v1, "", "has no model's API (HTTP 404)", "set base_url of models.m to {root}/v1"),
    "another folder": (with_v1, "/api", "has no model's API (HTTP 404)", "correct base_url of models.m"),
    "an endpoint": (with_v1, "/v1/chat/completions", "ends in /chat/completions", "models.m to {root}/v1"),
    "a listing": (with_v1, "/v1/models/", "ends in /models", "models.m to {root}/v1"),
    "a site": (lambda path, body: PAGE, "/v1", "answers with a web page", "correct base_url of models.m"),
    "a site for GET": (
        lambda path, body: PAGE if path.endswith("/models") else said(405, b"no", "text/plain"),
        "/v1",
        "answers with a web page",
        "correct base_url of models.m",
    ),
    "moved": (moved, "/v1", "redirects to https://api.example/v1/models", "models.m to https://api.example/v1;"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_address_is_said_before_a_run_and_by_doctor(name, tmp_path):
    answer, typed, reason, mend = WRONG[name]
    async with picky(answer) as (server, _):
        address = server.root + typed
        with pytest.raises(ModelError) as caught:
            await preflight({"m": ModelPolicy(base_url=address)})
        strop = f'{STROP}\n[policy.models.m]\nbase_url = "{address}"\n'
        check = await probe_model("m", await anyio.to_thread.run_sync(lambda: make_toy(tmp_path / "toy", strop=strop)))
        better = mend.format(root=server.root)
    assert reason in caught.value.reason
    assert better in caught.value.mend
    assert not check.ok
    assert reason in check.detail
    assert better in check.mend
    assert all(body == {} for _, body in server.asked)


RIGHT = {
    "lists": lambda path, body: LISTED if path == "/v1/models" else error(404),
    "lists nothing": lambda path, body: error(400) if path == "/v1/chat/completions" else error(404),
    "messages alone": lambda path, body: error(400) if path == "/v1/messages" else error(404),
    "gemini alone": lambda path, body: error(400) if path.endswith("m:generateContent") else error(404),
    "knows no such model": lambda path, body: error(404, "model '' not found"),
    "a page for people": lambda path, body: PAGE if path == "/v1/models" else error(422),
    "busy": lambda path, body: said(503, b"<html>", "text/html"),
    "keeps its list": lambda path, body: error(403),
}


@pytest.mark.parametrize("name", RIGHT)
async def test_an_address_that_may_be_right_is_given_its_chance(name):
    async with picky(RIGHT[name]) as (server, _):
        await preflight({"m": ModelPolicy(base_url=f"{server.root}/v1")})


@pytest.mark.parametrize("name", ["a site", "moved", "no /v1"])
async def test_a_wrong_address_stops_the_run_at_its_first_call(name):
    answer, typed, _, _ = WRONG[name]
    words = {"a site": "web page", "moved": "redirects to https://api.example", "no /v1": "HTTP 404"}[name]
    async with picky(answer) as (server, _):
        model = SimpleNamespace(url=server.root + typed)
        async with opened(model, patience_s=600) as gate, client_of(gate) as client:
            with anyio.fail_after(10):
                reply = await client.post("/v1/chat/completions", json=CHAT)
            assert reply.status_code >= 400
            with pytest.raises(ModelError, match=words):
                gate.gateway.check()
            assert gate.gateway.allowance.used.tokens_out == 0 or name == "a site"
    assert len(server.asked) == 2


async def test_a_page_with_a_title_is_named_and_not_printed():
    page = said(404, b"<html><head><title>404 Not Found</title></head><body>nginx</body></html>", "text/html")
    async with (
        picky(lambda path, body: page) as (_, model),
        opened(model) as gate,
        client_of(gate) as client,
    ):
        await client.post("/v1/chat/completions", json=CHAT)
        with pytest.raises(ModelError, match=r"HTTP 404: a web page \(404 Not Found\)\n"):
            gate.gateway.check()


@pytest.mark.parametrize("shape", ["page", "moved"])
async def test_what_comes_in_between_later_is_waited_out(shape):
    """A page of maintenance in front of a server that did answer."""
    answers = [said(200, OK), *([PAGE] * 2 if shape == "page" else [moved("/v1", {})] * 2), said(200, OK)]
    async with (
        picky(lambda path, body: answers.pop(0)) as (_, model),
        opened(model) as gate,
        client_of(gate) as client,
    ):
        for number in range(2):
            body = {**CHAT, "temperature": number}
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
        assert gate.gateway.fault is None


async def test_where_it_moved_is_told_without_the_key(monkeypatch):
    monkeypatch.setenv("THE_KEY", KEY)
    away = said(302, b"", location=f"https://elsewhere.example/?key={KEY}")
    async with picky(lambda path, body: away) as (server, model):
        policy = ModelPolicy(base_url=f"{server.root}/v1", api_key_env="THE_KEY")
        with pytest.raises(ModelError) as caught:
            await preflight({"m": policy})
        async with (
            opened(model, environment={"THE_KEY": KEY}, api_key_env="THE_KEY") as gate,
            client_of(gate) as client,
        ):
            reply = await client.post("/v1/chat/completions", json=CHAT)
            told = f"{gate.gateway.fault} {reply.text}"
    assert "[key]" in told
    assert "redirects to https://elsewhere.example" in caught.value.reason
    assert KEY not in f"{told} {caught.value} {caught.value.mend}"


@asynccontextmanager
async def secured(folder):
    """A server that speaks https alone, with a certificate of its own making."""
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    await anyio.to_thread.run_sync(
        lambda: subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = Picky(with_v1)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as listener:
        yield listener.sockets[0].getsockname()[1]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate")
async def test_http_where_https_is_spoken_and_a_certificate_nobody_knows(tmp_path):
    async with secured(tmp_path) as port:
        with pytest.raises(ModelError, match="speaks https, not http") as caught:
            await preflight({"m": ModelPolicy(base_url=f"http://127.0.0.1:{port}/v1")})
        assert f"to https://127.0.0.1:{port}/v1" in caught.value.mend
        with pytest.raises(ModelError, match="certificate") as caught:
            await preflight({"m": ModelPolicy(base_url=f"https://127.0.0.1:{port}/v1")})
        assert "not trusted here" in caught.value.mend


async def test_https_where_http_is_spoken():
    async with picky(with_v1) as (server, _):
        address = server.root.replace("http:", "https:") + "/v1"
        with pytest.raises(ModelError, match="speaks http, not https") as caught:
            await preflight({"m": ModelPolicy(base_url=address, connect_s=1)})
        assert f"to {server.root}/v1" in caught.value.mend


async def test_http_where_nginx_speaks_https_is_told_by_its_own_words():
    words = b"<html><title>400 The plain HTTP request was sent to HTTPS port</title>"
    async with picky(lambda path, body: said(400, words, "text/html")) as (server, _):
        await preflight(
            {"m": ModelPolicy(base_url=f"{server.root}/v1", connect_s=1)}
        )  # nothing speaks https there after all
