import json

import pytest

from harness.records import Reply
from harness.research.optimize.replies import MOST_TEXT, read_chat


def completion(text, reason="stop", **more):
    body = {"choices": [{"message": {"content": text}, "finish_reason": reason}], **more}
    return read_chat(Reply(200, "application/json", json.dumps(body).encode()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Be brief.", "Be brief."),
        ("<think>hm\nhm</think>\nBe brief.", "Be brief."),
        ("its template opened them\n</think>\n\nBe brief.", "Be brief."),
        ("Put your thoughts in <think></think> and be brief.", "Put your thoughts in <think></think> and be brief."),
    ],
)
def test_thoughts_are_no_part_of_a_text(text, said):
    assert completion(text).text == said


@pytest.mark.parametrize(
    ("text", "reason", "why"),
    [
        ("<think>hm", "stop", "thoughts and nothing after them"),
        ("<think>hm</think> ", "stop", "thoughts and nothing after them"),
        ("half", "length", "cut off at its length limit"),
        ("", "stop", "an empty reply"),
        (None, "stop", "an empty reply"),
        ("x" * (MOST_TEXT + 1), "stop", "a text of more than 2000000 characters"),
    ],
)
def test_a_reply_without_a_text_says_why(text, reason, why):
    assert (completion(text, reason).text, completion(text, reason).why) == (None, why)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"choices": [null]}', b'{"choices": [{"message": "x"}]}'])
def test_what_is_no_completion_is_none(body):
    assert read_chat(Reply(200, "application/json", body)).text is None
    assert read_chat(Reply(200, "application/json", body)).why == "status 200: no completion in the reply"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (400, b'{"error": {"message": "at most 4096 tokens, not 5012", "code": 7}}', "at most # tokens, not #"),
        (404, b'{"error": "no model"}', "no model"),
        (422, b'{"detail": [{"loc": ["seed"]}]}', '{"detail": [{"loc": ["seed"]}]}'),
        (400, b'{"object": "error", "message": "bad\\u001b[2J"}', "bad\\x1b[2J"),
        (400, b"<html>" + b"x" * 999, None),
        (413, b"[" * 60_000, None),
    ],
)
def test_a_refusal_says_what_the_upstream_says(status, body, why):
    told = read_chat(Reply(status, "text/plain", body))
    assert told.text is None
    assert len(told.why) < 200
    assert told.why.startswith(f"HTTP {status}: ")
    assert why is None or told.why == f"HTTP {status}: {why}"


def test_usage_that_is_nonsense_is_no_error():
    assert completion("x", usage={"prompt_tokens": "many"}).why == "status 200: no completion in the reply"
    assert completion("x", usage={"prompt_tokens": 3, "completion_tokens": None}).usage.tokens_in == 3
