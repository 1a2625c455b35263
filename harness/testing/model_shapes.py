"""The dialects from a server's side: how each spells a whole answer, and the pieces of a streamed one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.records import Json

_CONTENT: Mapping[str, str | None] = {"null": None, "blank": ""}


@dataclass(frozen=True, slots=True)
class Turn:
    """What is said, and how many tokens the server says it was."""

    text: str
    tools: tuple[Mapping[str, Any], ...]
    model: str
    tokens_in: int
    tokens_out: int
    mode: str

    @property
    def words(self) -> list[str]:
        """The text in pieces that add up to it."""
        parts = self.text.split(" ")
        return [part if number == 0 else f" {part}" for number, part in enumerate(parts)]


class Shape:
    """One dialect. `prompt` is the text whose words are the input tokens."""

    writes = True
    limits: Sequence[str] = ("max_tokens", "max_completion_tokens", "max_output_tokens")

    def prompt(self, body: Mapping[str, Any]) -> str:
        return json.dumps(body.get("messages") or body.get("input") or body.get("prompt") or body.get("contents"))

    def limit(self, body: Mapping[str, Any]) -> int | None:
        return next((int(body[key]) for key in self.limits if body.get(key) is not None), None)

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        return body.get("stream") is True

    def whole(self, turn: Turn) -> Mapping[str, Any]:
        raise NotImplementedError

    def pieces(self, turn: Turn) -> Iterator[bytes]:
        raise NotImplementedError


class _Chat(Shape):
    def whole(self, turn: Turn) -> Mapping[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": _CONTENT.get(turn.mode, turn.text)}
        if turn.tools:
            message |= {"content": None, "tool_calls": list(turn.tools)}
        reason = "tool_calls" if turn.tools else "length" if turn.mode == "length" else "stop"
        choices = [] if turn.mode == "empty" else [{"index": 0, "message": message, "finish_reason": reason}]
        return {"object": "chat.completion", **_head(turn), "choices": choices, **_usage(turn)}

    def pieces(self, turn: Turn) -> Iterator[bytes]:
        head = {"object": "chat.completion.chunk", **_head(turn)}
        if turn.mode != "empty":
            for word in turn.words:
                yield _event({**head, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})
            if turn.tools:
                calls = [{"index": place, **tool} for place, tool in enumerate(turn.tools)]
                yield _event({**head, "choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]})
            reason = "tool_calls" if turn.tools else "stop"
            yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if turn.mode != "no_usage":
            yield _event({**head, "choices": [], **_usage(turn)})
        yield b"data: [DONE]\n\n"


class _Completions(Shape):
    def whole(self, turn: Turn) -> Mapping[str, Any]:
        choices = [] if turn.mode == "empty" else [{"index": 0, "text": turn.text, "finish_reason": "stop"}]
        return {"object": "text_completion", **_head(turn), "choices": choices, **_usage(turn)}

    def pieces(self, turn: Turn) -> Iterator[bytes]:
        head = {"object": "text_completion", **_head(turn)}
        for word in turn.words:
            yield _event({**head, "choices": [{"index": 0, "text": word, "finish_reason": None}]})
        yield _event({**head, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
        if turn.mode != "no_usage":
            yield _event({**head, "choices": [], **_usage(turn)})
        yield b"data: [DONE]\n\n"


class _Embeddings(Shape):
    writes = False

    def whole(self, turn: Turn) -> Mapping[str, Any]:
        usage = {"prompt_tokens": turn.tokens_in, "total_tokens": turn.tokens_in}
        data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
        return {"object": "list", "model": turn.model, "data": data, "usage": usage}


class _Responses(Shape):
    def whole(self, turn: Turn) -> Mapping[str, Any]:
        content: Json = [{"type": "output_text", "text": turn.text, "annotations": []}]
        said: Json = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        items: list[Json] = [{**_response_call(tool), "status": "completed"} for tool in turn.tools] or [said]
        usage = {
            "input_tokens": turn.tokens_in,
            "output_tokens": turn.tokens_out,
            "total_tokens": turn.tokens_in + turn.tokens_out,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        whole: dict[str, Any] = {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": turn.model,
            "status": "completed",
            "output": items,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        return whole if turn.mode == "no_usage" else {**whole, "usage": usage}

    def pieces(self, turn: Turn) -> Iterator[bytes]:
        whole = self.whole(turn)
        number = 0
        begun: dict[str, Any] = {**whole, "status": "in_progress", "output": [], "usage": None}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            *(self._calls(turn, whole["output"]) if turn.tools else self._text(turn, whole["output"][0])),
            {"type": "response.completed", "response": whole},
        ]
        for number, event in enumerate(events):
            yield _event({**event, "sequence_number": number}, str(event["type"]))

    @staticmethod
    def _text(turn: Turn, item: Mapping[str, Any]) -> list[dict[str, Any]]:
        where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        part: dict[str, Json] = {"type": "output_text", "text": "", "annotations": []}
        begun: dict[str, Any] = {**item, "status": "in_progress", "content": []}
        return [
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {"type": "response.content_part.added", **where, "part": part},
            *({"type": "response.output_text.delta", **where, "delta": word, "logprobs": []} for word in turn.words),
            {"type": "response.output_text.done", **where, "text": turn.text, "logprobs": []},
            {"type": "response.content_part.done", **where, "part": {**part, "text": turn.text}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
        ]

    @staticmethod
    def _calls(turn: Turn, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        for place, item in enumerate(items):
            where = {"item_id": item["id"], "output_index": place}
            begun = {**item, "status": "in_progress", "arguments": ""}
            said = {"arguments": item["arguments"]}
            events += [
                {"type": "response.output_item.added", "output_index": place, "item": begun},
                {"type": "response.function_call_arguments.delta", **where, "delta": item["arguments"]},
                {"type": "response.function_call_arguments.done", **where, **said},
                {"type": "response.output_item.done", "output_index": place, "item": item},
            ]
        return events


class _Messages(Shape):
    limits = ("max_tokens",)

    def whole(self, turn: Turn) -> Mapping[str, Any]:
        usage = {"input_tokens": turn.tokens_in, "output_tokens": turn.tokens_out}
        content: list[Json] = [] if turn.mode == "empty" else [{"type": "text", "text": turn.text}]
        if turn.tools:
            content = [{**_message_call(tool), "input": json.loads(_arguments(tool))} for tool in turn.tools]
        return {**self._head(turn), "content": content, "stop_reason": self._reason(turn), "usage": usage}

    def pieces(self, turn: Turn) -> Iterator[bytes]:
        usage = {"input_tokens": turn.tokens_in, "output_tokens": 1}
        start: dict[str, Any] = {**self._head(turn), "content": [], "stop_reason": None, "usage": usage}
        yield _event({"type": "message_start", "message": start}, "message_start")
        for place, (block, deltas) in enumerate(self._blocks(turn)):
            begun = {"type": "content_block_start", "index": place, "content_block": block}
            yield _event(begun, "content_block_start")
            for delta in deltas:
                yield _event({"type": "content_block_delta", "index": place, "delta": delta}, "content_block_delta")
            yield _event({"type": "content_block_stop", "index": place}, "content_block_stop")
        ended = {"stop_reason": self._reason(turn), "stop_sequence": None}
        closing = {"type": "message_delta", "delta": ended, "usage": {"output_tokens": turn.tokens_out}}
        yield _event(closing, "message_delta")
        yield _event({"type": "message_stop"}, "message_stop")

    @staticmethod
    def _blocks(turn: Turn) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        if not turn.tools:
            return [({"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in turn.words])]
        return [
            ({**_message_call(tool), "input": {}}, [{"type": "input_json_delta", "partial_json": _arguments(tool)}])
            for tool in turn.tools
        ]

    @staticmethod
    def _reason(turn: Turn) -> str:
        return "tool_use" if turn.tools else "end_turn"

    @staticmethod
    def _head(turn: Turn) -> dict[str, Any]:
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": turn.model, "stop_sequence": None}


class _Gemini(Shape):
    def limit(self, body: Mapping[str, Any]) -> int | None:
        config: Mapping[str, Any] = body.get("generationConfig") or {}
        return config.get("maxOutputTokens")

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        return "streamGenerateContent" in path

    def whole(self, turn: Turn) -> Mapping[str, Any]:
        return self._part(turn, self._calls(turn) or [{"text": turn.text}], "STOP", turn.tokens_out)

    def pieces(self, turn: Turn) -> Iterator[bytes]:
        parts = [self._calls(turn)] if turn.tools else [[{"text": word}] for word in turn.words]
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            yield _event(self._part(turn, part, "STOP" if last else None, turn.tokens_out if last else number + 1))

    @staticmethod
    def _calls(turn: Turn) -> list[dict[str, Any]]:
        return [{"functionCall": {"name": _name(tool), "args": json.loads(_arguments(tool))}} for tool in turn.tools]

    @staticmethod
    def _part(turn: Turn, parts: list[dict[str, Any]], reason: str | None, out: int) -> Mapping[str, Any]:
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        if reason:
            candidate["finishReason"] = reason
        usage = {
            "promptTokenCount": turn.tokens_in,
            "candidatesTokenCount": out,
            "totalTokenCount": turn.tokens_in + out,
        }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": turn.model}


SHAPES: Mapping[str, Shape] = {
    "/chat/completions": _Chat(),
    "/completions": _Completions(),
    "/embeddings": _Embeddings(),
    "/responses": _Responses(),
    "/messages": _Messages(),
}
_GEMINI = _Gemini()


def shape_of(path: str) -> Shape | None:
    """The dialect of a path."""
    if "enerateContent" in path:
        return _GEMINI
    return SHAPES.get(path.removeprefix("/v1"))


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool["function"]["name"])


def _arguments(tool: Mapping[str, Any]) -> str:
    return str(tool["function"]["arguments"])


def _response_call(tool: Mapping[str, Any]) -> dict[str, Json]:
    """A tool call of chat as an item of Responses."""
    call = str(tool["id"])
    return {
        "id": f"fc_{call}",
        "type": "function_call",
        "call_id": call,
        "name": _name(tool),
        "arguments": _arguments(tool),
    }


def _message_call(tool: Mapping[str, Any]) -> dict[str, Json]:
    """A tool call of chat as a block of Messages, without its input."""
    return {"type": "tool_use", "id": str(tool["id"]), "name": _name(tool)}


def _head(turn: Turn) -> dict[str, Any]:
    return {"id": "scripted-1", "created": 0, "model": turn.model}


def _usage(turn: Turn) -> dict[str, Any]:
    if turn.mode == "no_usage":
        return {}
    whole = turn.tokens_in + turn.tokens_out
    return {
        "usage": {"prompt_tokens": turn.tokens_in, "completion_tokens": turn.tokens_out, "total_tokens": whole},
    }


def _event(body: Mapping[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(body)}\n\n".encode()
