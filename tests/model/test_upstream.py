"""The way to an upstream, straight and through a general client, against servers that speak by the byte."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import anyio
import pytest

from harness.model import upstream as ways
from harness.model.direct import MAX_HEAD, Direct
from harness.model.faults import Fault
from harness.model.upstream import General, upstream
from harness.policy.schema import ModelPolicy

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Server:
    """Answers each request with the next of `answers`: bytes, a number of seconds to wait, or None to hang up."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.connections = 0
        self.requests = []
        self.ended = anyio.Event()

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(int(row[15:]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length:"))
                self.requests.append((head, await reader.readexactly(size)))
                for part in self.answers.pop(0):
                    if part is None:
                        return
                    if isinstance(part, bytes):
                        writer.write(part)
                        await writer.drain()
                    else:
                        await asyncio.sleep(part)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.ended.set()
            writer.close()


@asynccontextmanager
async def reached(kind, *answers, **settings):
    """(a server, a way to it, a function that posts and gives status, headers and body)."""
    server = Server(*answers)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        way = Direct(url) if kind == "direct" else General(ModelPolicy(base_url=url))
        limits = {"connect_s": 5.0, "first_byte_s": 5.0, "within_s": 5.0, **settings}
        within_s = limits.pop("within_s")

        async def post(path="/chat/completions", headers=None, body=b"{}"):
            async with way.post(url + path, headers or {}, body, **limits) as answer:
                parts = []
                while part := await answer.part(within_s):
                    parts.append(part)
                return answer.status, answer.headers, b"".join(parts)

        server.url = url
        try:
            yield server, way, post
        finally:
            await way.aclose()


both = pytest.mark.parametrize("kind", ["direct", "general"])
WHOLE = {
    "length": [OK],
    "chunks": [CHUNKED + b"3\r\nhel\r\n", 0.01, b"2\r\nlo\r\n0\r\n\r\n"],
    "bytes": [bytes([byte]) for byte in CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"],
    "trailer": [CHUNKED + b"5\r\nhello\r\n0\r\ncontent-type: text/odd\r\n\r\n"],
    "end": [b"HTTP/1.1 200 OK\r\n\r\nhel", 0.01, b"lo", None],
    "old": [b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nhello", None],
    "interim": [b"HTTP/1.1 100 Continue\r\n\r\n", 0.01, OK],
    "interims": [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 2 + OK],
}


@both
@pytest.mark.parametrize("name", WHOLE)
async def test_an_answer_arrives_whole_however_it_is_framed(kind, name):
    async with reached(kind, WHOLE[name]) as (server, _, post):
        status, headers, body = await post(headers={"authorization": "Bearer k"}, body=b'{"a": 1}')
    assert (status, body) == (200, b"hello")
    assert headers.get("content-type") != "text/odd"
    head, sent = server.requests[0]
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"authorization: Bearer k" in head
    assert sent == b'{"a": 1}'


BROKEN = {
    "nothing": [None],
    "no http": [b"SSH-2.0-OpenSSH_9.6\r\n", None],
    "half a head": [b"HTTP/1.1 200 OK\r\ncontent-le", None],
    "half a body": [b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello", None],
    "half a chunk": [CHUNKED + b"50\r\nhello", None],
    "no last chunk": [CHUNKED + b"5\r\nhello\r\n", None],
    "odd chunk": [CHUNKED + b"zz\r\nhello\r\n", None],
    "two lengths": [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!", None],
    "endless head": [b"HTTP/1.1 200 OK\r\n" + b"x-a: " + b"a" * (2 * MAX_HEAD) + b"\r\n\r\n", None],
}


@both
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_answer_is_a_fault_that_passes(kind, name):
    async with reached(kind, BROKEN[name], [OK]) as (_, _, post):
        with pytest.raises(Fault) as caught:
            await post()
        assert caught.value.passing
        assert caught.value.reached
        assert (await post())[2] == b"hello"


@both
async def test_deadlines_hold_on_the_head_and_between_parts(kind):
    trickle = [part for byte in b"HTTP/1.1 200 OK\r\nx-slow: " + b"a" * 99 for part in (bytes([byte]), 0.05)]
    slow = [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", 30.0]
    async with reached(kind, [30.0], trickle, slow, first_byte_s=0.3, within_s=0.3) as (_, _, post):
        for said in ("no answer within 0.3 s", "no answer within 0.3 s", "the answer stopped within 0.3 s"):
            with anyio.fail_after(3), pytest.raises(Fault, match=said):
                await post()


@both
async def test_a_server_that_cannot_be_reached_was_not_asked(kind):
    async with reached(kind) as (server, _, _):
        url = server.url
    way = Direct(url) if kind == "direct" else General(ModelPolicy(base_url=url))
    with pytest.raises(Fault, match="cannot connect") as caught:
        async with way.post(url, {}, b"", connect_s=5, first_byte_s=5):
            pass
    assert not caught.value.reached
    await way.aclose()


@both
async def test_a_server_that_does_not_speak_tls_was_not_asked(kind):
    async with reached(kind, [OK]) as (server, _, _):
        url = server.url.replace("http:", "https:")
        way = Direct(url) if kind == "direct" else General(ModelPolicy(base_url=url, connect_s=1))
        with pytest.raises(Fault) as caught:
            async with way.post(url, {}, b"", connect_s=1, first_byte_s=5):
                pass
        assert not caught.value.reached
        await way.aclose()


@both
async def test_calls_share_a_connection_and_go_on_when_it_has_ended(kind):
    closing = OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    async with reached(kind, [OK], [OK, 0.05, None], [closing], [OK]) as (server, _, post):
        assert [(await post())[2] for _ in range(2)] == [b"hello"] * 2
        assert server.connections == 1
        await server.ended.wait()
        await asyncio.sleep(0.05)
        assert [(await post())[2] for _ in range(2)] == [b"hello"] * 2
        assert server.connections == 3


async def test_what_follows_an_answer_is_no_answer_to_the_next():
    async with reached("direct", [OK + OK.replace(b"hello", b"sorry")], [OK]) as (_, _, post):
        assert [(await post())[2] for _ in range(2)] == [b"hello"] * 2


async def test_what_comes_unasked_is_no_answer_to_the_next():
    async with reached("direct", [OK, 0.05, OK.replace(b"hello", b"sorry")], [OK]) as (server, _, post):
        assert (await post())[2] == b"hello"
        await asyncio.sleep(0.2)
        assert (await post())[2] == b"hello"
        assert server.connections == 2


@both
async def test_leaving_early_hangs_up(kind):
    async with reached(kind, [CHUNKED + b"5\r\nhello\r\n", 0.05] + [b"5\r\nhello\r\n", 0.01] * 500) as (server, way, _):
        async with way.post(server.url, {}, b"", connect_s=5, first_byte_s=5) as answer:
            assert await answer.part(5) == b"hello"
        with anyio.fail_after(3):
            await server.ended.wait()


async def test_a_slow_reader_is_not_flooded():
    block = b"%x\r\n%s\r\n" % (1 << 16, b"a" * (1 << 16))
    count = 0
    async with (
        reached("direct", [CHUNKED, *[block] * 256, b"0\r\n\r\n"]) as (server, way, _),
        way.post(server.url, {}, b"", connect_s=5, first_byte_s=5) as answer,
    ):
        while part := await answer.part(5):
            assert len(part) < 4 << 20
            count += len(part)
            await asyncio.sleep(0.002)
    assert count == 256 << 16


@pytest.mark.parametrize("key", ["two\r\nlines", "two\nlines", "zero\0", "höher\N{SNOWMAN}"])
async def test_a_key_that_is_no_header_is_refused_before_anything_is_sent(key):
    async with reached("direct", [OK]) as (server, _, post):
        with pytest.raises(Fault) as caught:
            await post(headers={"authorization": f"Bearer {key}"})
    assert caught.value.final
    assert not caught.value.reached
    assert "Bearer" not in str(caught.value)
    assert not server.requests


async def test_a_path_cannot_leave_its_line():
    async with reached("direct", [OK]) as (server, _, post):
        await post("/models/a b\r\nx: y/ü%20?k=v&m=n")
    assert server.requests[0][0].startswith(b"POST /v1/models/a%20b%0D%0Ax:%20y/%C3%BC%20?k=v&m=n HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("url", "proxy", "way"),
    [
        ("http://127.0.0.1:1/v1", {}, Direct),
        ("https://models.example/v1", {}, Direct),
        ("http://[::1]:8000/v1", {"http_proxy": "http://p:1"}, Direct),
        ("https://models.example/v1", {"https_proxy": "http://p:1"}, General),
        ("https://models.example/v1", {"all_proxy": "http://p:1"}, General),
        ("https://models.example/v1", {"https_proxy": "http://p:1", "no_proxy": ".example"}, Direct),
        ("http://models.example/v1", {"https_proxy": "http://p:1"}, Direct),
        ("http://bücher.example/v1", {}, General),
        ("http://models.example:99999/v1", {}, General),
    ],
)
async def test_a_proxy_or_an_odd_address_takes_the_general_way(url, proxy, way, monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in proxy.items():
        monkeypatch.setenv(name, value)
    found = upstream(ModelPolicy(base_url=url))
    assert type(found) is way
    await found.aclose()


async def test_an_impossible_address_stops_the_run():
    way = upstream(ModelPolicy(base_url="http://models.example:port/v1"))
    with pytest.raises(Fault) as caught:
        async with way.post("http://models.example:port/v1", {}, b"", connect_s=1, first_byte_s=1):
            pass
    assert caught.value.final
    await way.aclose()


async def test_without_its_parser_the_general_way_is_taken(monkeypatch):
    monkeypatch.setattr(ways.importlib.util, "find_spec", lambda name: None)
    found = upstream(ModelPolicy(base_url="http://127.0.0.1:1/v1"))
    assert type(found) is General
    await found.aclose()


def test_certificates_are_checked():
    context = Direct("https://models.example/v1")._tls
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
