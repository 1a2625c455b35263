"""Which fields of a request reach an upstream: none whose cost the request's own bytes and its cap do not bound."""

import pytest
from model.gateways import CHAT, reached

from harness.model.dialects.allowed import IMAGE_TOKENS
from harness.testing.scripted_model import ScriptedModel

PIXEL = "data:image/png;base64,iVBORw0KGgo="
RESPONSES = {"model": "m", "input": "say hello to me"}
MESSAGES = {**CHAT, "max_tokens": 100}
GEMINI = {"contents": [{"parts": [{"text": "say hello to me"}]}]}
PATHS = {
    "chat": ("/v1/chat/completions", CHAT),
    "completions": ("/v1/completions", {"model": "m", "prompt": "say hello to me"}),
    "responses": ("/v1/responses", RESPONSES),
    "messages": ("/v1/messages", MESSAGES),
    "gemini": ("/v1beta/models/m:generateContent", GEMINI),
}


def says(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}]}


def held(source):
    return says({"type": "image", "source": source})


REFUSED = [
    ("chat", {"stream": 1}, "stream"),
    ("chat", {"stream": "true"}, "stream"),
    ("responses", {"stream": 1}, "stream"),
    ("messages", {"stream": "yes"}, "stream"),
    ("chat", {"web_search_options": {}, "plugins": [{"id": "web"}]}, "plugins"),
    ("chat", {"tools": [{"type": "web_search"}]}, "web_search"),
    ("chat", {"modalities": ["text", "audio"]}, "text"),
    ("chat", {"n_predict": 1_000_000, "max_tokens": 5}, "n_predict"),
    ("chat", {"models": ["dearer"]}, "models"),
    ("chat", says({"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}), "image_url"),
    ("chat", {"messages": [{"role": "user", "content": {"type": "image_url", "image_url": "http://x"}}]}, "image_url"),
    ("chat", says({"type": "file", "file": {"file_id": "f"}}), "file"),
    ("chat", says({"type": "video_url", "video_url": {"url": PIXEL}}), "video_url"),
    ("completions", {"prompt_embeds": "AAAA"}, "prompt_embeds"),
    ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", {"conversation": "c"}, "conversation"),
    ("responses", {"prompt": {"id": "p"}}, "prompt"),
    ("responses", {"background": 1}, "background"),
    ("responses", {"input": [{"type": "item_reference", "id": "i"}]}, "item"),
    ("responses", {"input": [{"id": "i"}]}, "item"),
    (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x"}]}]},
        "input_file",
    ),
    ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
    ("messages", {"mcp_servers": [{"url": "https://x.example"}]}, "mcp_servers"),
    ("messages", {"container": "c"}, "container"),
    ("messages", held({"type": "url", "url": "https://x.example/a.png"}), "image"),
    (
        "messages",
        says({"type": "tool_result", "content": [{"type": "document", "source": {"type": "url"}}]}),
        "document",
    ),
    ("gemini", {"cachedContent": "c"}, "cachedContent"),
    ("gemini", {"cached_content": "c"}, "cachedContent"),
    ("gemini", {"generation_config": {}, "generationConfig": {"maxOutputTokens": 9}}, "twice"),
    ("gemini", {"generationConfig": {"maxOutputTokens": 9, "max_output_tokens": 100_000}}, "twice"),
    ("gemini", {"tools": [{"googleSearch": {}}]}, "googleSearch"),
    ("gemini", {"tools": [{"code_execution": {}}]}, "codeExecution"),
    ("gemini", {"contents": [{"parts": [{"file_data": {"file_uri": "https://x"}}]}]}, "fileData"),
    ("gemini", {"contents": [{"parts": [{"inlineData": {"mimeType": "application/pdf"}}]}]}, "pdf"),
]


@pytest.mark.parametrize(("name", "change", "said"), REFUSED)
async def test_what_brings_cost_from_elsewhere_is_refused_by_name(name, change, said):
    path, body = PATHS[name]
    async with ScriptedModel() as model, reached(model) as (server, client):
        reply = await client.post(path, json={**body, **change})
        after = await client.post(path, json=body)
    assert reply.status_code == 400
    assert said in reply.text
    assert "error" in reply.json()
    assert after.status_code == 200
    assert model.served.requests == 1
    assert server.gateway.fault is None


FUNCTION = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
PASSED = [
    (
        "chat",
        {
            "top_k": 4,
            "min_p": 0.1,
            "repeat_penalty": 1.1,
            "grammar": "root ::= 'a'",
            "guided_json": {"type": "object"},
            "chat_template_kwargs": {"enable_thinking": False},
            "tools": [FUNCTION],
            "response_format": {"type": "json_object"},
        },
    ),
    (
        "responses",
        {
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low"},
            "prompt_cache_key": "k",
            "tools": [{"type": "function", "name": "run"}, {"type": "custom", "name": "apply_patch"}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "reasoning", "summary": [], "encrypted_content": "AAAA"},
                {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "done"},
            ],
        },
    ),
    (
        "messages",
        {
            "metadata": {"user_id": "u"},
            "thinking": {"type": "enabled", "budget_tokens": 50},
            "system": [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "Bash", "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}}}],
            "messages": [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"url": "x"}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]},
            ],
        },
    ),
    (
        "gemini",
        {
            "systemInstruction": {"role": "user", "parts": [{"text": "be good"}]},
            "tools": [{"functionDeclarations": [{"name": "run"}]}],
            "contents": [
                {"role": "model", "parts": [{"functionCall": {"name": "run", "args": {"file_data": 1}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "run", "response": {"output": "x"}}}]},
            ],
        },
    ),
]


@pytest.mark.parametrize(("name", "change"), PASSED)
async def test_what_clients_send_to_run_as_they_are_goes_on_unchanged(name, change):
    path, body = PATHS[name]
    async with ScriptedModel() as model, reached(model) as (_, client):
        assert (await client.post(path, json={**body, **change})).status_code == 200
    for field, value in change.items():
        assert model.served.bodies[0][field] == value


STRIPPED = [
    ("chat", {"service_tier": "priority"}),
    ("chat", {"prediction": {"type": "content", "content": "x"}}),
    ("chat", {"chat_template": "{% for i in range(100000) %}x{% endfor %}"}),
    ("chat", {"field_of_next_year": 1}),
    ("responses", {"service_tier": "priority"}),
    ("messages", {"service_tier": "auto"}),
    ("messages", {"speed": "fast"}),
    ("gemini", {"model": "models/other"}),
]


@pytest.mark.parametrize(("name", "change"), STRIPPED)
async def test_what_nobody_vouches_for_is_left_out(name, change):
    path, body = PATHS[name]
    async with ScriptedModel() as model, reached(model) as (_, client):
        assert (await client.post(path, json={**body, **change})).status_code == 200
    assert not set(change) & set(model.served.bodies[0])


async def test_tools_that_the_server_would_run_are_not_offered_to_it():
    tools = [
        {"type": "web_search", "external_web_access": False},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "namespace", "name": "n", "tools": [{"type": "web_search"}, {"type": "function", "name": "f"}]},
    ]
    async with ScriptedModel() as model, reached(model) as (_, client):
        assert (await client.post("/v1/responses", json={**RESPONSES, "tools": tools})).status_code == 200
    sent = model.served.bodies[0]["tools"]
    assert sent == [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"generation_config": {"max_output_tokens": 9, "candidate_count": 3}}, 27),
        ({"generationConfig": {"candidate_count": 2}}, 200),
    ],
)
async def test_gemini_in_either_spelling_is_capped_and_held(config, most):
    path, body = PATHS["gemini"]
    async with (
        ScriptedModel() as model,
        reached(model, max_output_tokens=100, budget={"tokens_out": most - 1}) as (_, client),
    ):
        assert (await client.post(path, json={**body, **config})).status_code == 429
    async with (
        ScriptedModel() as model,
        reached(model, max_output_tokens=100, budget={"tokens_out": most}) as (_, client),
    ):
        assert (await client.post(path, json={**body, **config})).status_code == 200
    assert set(model.served.bodies[0]) == {"contents", "generationConfig"}


async def test_of_two_limits_the_smaller_one_is_sent_as_both():
    async with ScriptedModel() as model, reached(model) as (_, client):
        await client.post("/v1/chat/completions", json={**CHAT, "max_completion_tokens": 900, "max_tokens": 7})
        await client.post("/v1/chat/completions", json={**CHAT, "n_predict": 6})
    first, second = model.served.bodies
    assert (first["max_completion_tokens"], first["max_tokens"]) == (7, 7)
    assert second["max_tokens"] == 6
    assert "n_predict" not in second


async def test_a_picture_is_held_at_more_than_its_bytes():
    body = {**CHAT, **says({"type": "image_url", "image_url": {"url": PIXEL}})}
    async with ScriptedModel() as model, reached(model, budget={"tokens_in": IMAGE_TOKENS}) as (_, client):
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 429
    async with ScriptedModel() as model, reached(model, budget={"tokens_in": IMAGE_TOKENS + 1000}) as (_, client):
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200


async def test_a_cache_is_not_written_for_longer_than_is_priced():
    cache = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = {
        **MESSAGES,
        "system": [{"type": "text", "text": "x", **cache}],
        **says({"type": "text", "text": "x", **cache}),
    }
    async with ScriptedModel() as model, reached(model) as (_, client):
        assert (await client.post("/v1/messages", json=body)).status_code == 200
    assert "ttl" not in str(model.served.bodies[0])
