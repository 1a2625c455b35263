"""Models are listed and looked up in each vendor's way; Gemini's vectors; what a box may ask of Anthropic's betas."""

import pytest
from model.gateways import CHAT, client_of, opened, reached
from model.odd import OK, picky, said

from harness.testing.scripted_model import ScriptedModel

ANTHROPIC = {"anthropic-version": "2023-06-01"}


async def test_models_are_listed_in_each_vendors_way():
    async with ScriptedModel() as model, reached(model) as (_, client):
        openai = (await client.get("/v1/models")).json()
        anthropic = (await client.get("/v1/models", headers=ANTHROPIC)).json()
        gemini = (await client.get("/v1beta/models")).json()
    assert (openai["object"], [row["id"] for row in openai["data"]]) == ("list", ["m"])
    assert [(row["type"], row["id"]) for row in anthropic["data"]] == [("model", "m")]
    assert (anthropic["has_more"], anthropic["first_id"]) == (False, "m")
    assert [row["name"] for row in gemini["models"]] == ["models/m"]
    assert "embedContent" in gemini["models"][0]["supportedGenerationMethods"]
    assert model.served.requests == 0


@pytest.mark.parametrize("name", ["m", "gpt-4o", "openai/gpt-4o"])
async def test_a_model_is_found_by_every_name_it_is_called_by(name):
    async with ScriptedModel() as model, reached(model) as (_, client):
        assert (await client.get(f"/v1/models/{name}")).json()["id"] == name
        assert (await client.get(f"/v1/models/{name}", headers=ANTHROPIC)).json()["type"] == "model"
        assert (await client.get(f"/v1beta/models/{name}")).json()["name"] == f"models/{name}"


async def test_one_that_is_not_there_is_not_found():
    async with ScriptedModel() as model, reached(model) as (server, client):
        server.gateway.routes["other"] = server.gateway.routes["m"]
        assert (await client.get("/v1/models/m")).status_code == 200
        missing = await client.get("/v1/models/gpt-4o")
        assert (await client.get("/v1/models/m/files")).status_code == 404
        assert (await client.get("/v1/files")).status_code == 404
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "not_found"


TEXT = {"parts": [{"text": "say hello to me"}]}
ONE = {"content": TEXT, "task_type": "RETRIEVAL_QUERY", "cachedContents": "x"}
VECTOR = {"values": [0.5, 0.25]}


async def test_gemini_gives_vectors_one_and_many():
    def answer(path, body):
        return said(200, {"embedding": VECTOR} if path.endswith(":embedContent") else {"embeddings": [VECTOR] * 2})

    async with picky(answer) as (server, model), opened(model, model="vec-1") as gate, client_of(gate) as client:
        one = await client.post("/v1beta/models/m:embedContent", json={**ONE, "model": "models/text-embedding-004"})
        many = await client.post("/v1beta/models/m:batchEmbedContents", json={"requests": [ONE, ONE]})
        used = gate.gateway.allowance.used
        assert used.requests == 2
        assert used.tokens_in > 0
        assert used.tokens_out == 0
        assert used.estimated
    assert one.json() == {"embedding": VECTOR}
    assert len(many.json()["embeddings"]) == 2
    laid = {"content": TEXT, "taskType": "RETRIEVAL_QUERY", "model": "models/vec-1"}
    assert server.asked == [
        ("/v1beta/models/vec-1:embedContent", laid),
        ("/v1beta/models/vec-1:batchEmbedContents", {"requests": [laid, laid]}),
    ]


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("embedContent", {}),
        ("embedContent", {"content": {"parts": [{"fileData": {"fileUri": "gs://x"}}]}}),
        ("embedContent", {"content": TEXT, "cachedContent": "x"}),
        ("batchEmbedContents", {"requests": "x"}),
        ("batchEmbedContents", {"requests": [ONE, {"content": {"parts": "x"}}]}),
    ],
)
async def test_vectors_of_what_stands_elsewhere_are_refused(verb, body):
    async with ScriptedModel() as model, reached(model) as (_, client):
        reply = await client.post(f"/v1beta/models/m:{verb}", json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert model.served.requests == 0


async def test_tokens_are_counted_for_gemini_and_anthropic_without_asking():
    async with ScriptedModel() as model, reached(model) as (_, client):
        gemini = await client.post("/v1beta/models/m:countTokens", json={"contents": [TEXT]})
        anthropic = await client.post("/v1/messages/count_tokens", json=CHAT)
    assert gemini.json()["totalTokens"] >= 4
    assert anthropic.json()["input_tokens"] >= 4
    assert model.served.requests == 0


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("interleaved-thinking-2025-05-14", "interleaved-thinking-2025-05-14"),
        (
            "claude-code-20250219, context-1m-2025-08-07,fine-grained-tool-streaming-2025-05-14,fast-mode-2026-02-01",
            "claude-code-20250219,fine-grained-tool-streaming-2025-05-14",
        ),
        ("files-api-2025-04-14,code-execution-2025-08-25,mcp-client-2025-11-20", None),
        ("extended-cache-ttl-2025-04-11", None),
        ("effort-2025-11-24-and-more", None),
        ("", None),
    ],
)
async def test_of_betas_only_those_go_on_that_cannot_cost_more(asked, sent):
    heads = []

    def answer(path, body):
        told = {"content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}
        return said(200, told if path.endswith("/messages") else OK)

    async with picky(answer) as (server, model), opened(model) as gate, client_of(gate) as client:
        server.heads = heads
        for path in ("/v1/messages", "/v1/chat/completions"):
            headers = {"anthropic-beta": asked, "anthropic-version": "2023-06-01; x"}
            assert (await client.post(path, json={**CHAT, "max_tokens": 9}, headers=headers)).status_code == 200
    messages, chat = heads[:2]
    assert messages.get("anthropic-beta") == sent
    assert messages["anthropic-version"] == "2023-06-01"
    assert "anthropic-beta" not in chat
