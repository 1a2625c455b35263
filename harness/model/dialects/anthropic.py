"""Anthropic's `/v1/messages`."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.base import PING, Asked, Counted
from harness.model.dialects import allowed
from harness.model.dialects.fields import capped, count, must_list, named_in, rows, table
from harness.model.tokens import Said
from harness.records import Json

_KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class Anthropic:
    """Messages, whole or as typed events."""

    name = "messages"
    writes = True

    def speaks(self, path: str) -> bool:
        return path in {"/v1/messages", "/messages"}

    def read(self, path: str, body: Mapping[str, Json], *, cap: int) -> Asked:
        must_list(body, "messages")
        found = allowed.kept(body, allowed.MESSAGES)
        allowed.functions_only(
            found.get("tools"), ("function", "custom", "bash_", "text_editor_", "computer_", "memory_")
        )
        own = sum("type" in tool and tool["type"] != "custom" for tool in rows(found.get("tools")))
        more = allowed.TOOLS_TOKENS * (1 + own) if found.get("tools") else 0
        more += allowed.parts_tokens(found.get("system"))
        for message in rows(found.get("messages")):
            more += allowed.parts_tokens(message.get("content"))
        for name in ("system", "tools", "messages"):
            if name in found:
                found[name] = allowed.briefly_cached(found[name])
        if "ttl" in table(found.get("cache_control")):
            found["cache_control"] = {"type": "ephemeral"}
        laid, most = capped(found, ("max_tokens",), "max_tokens", cap)
        thinking = table(laid.get("thinking"))
        budget = count(thinking.get("budget_tokens"))
        if budget is not None and budget >= most:
            # thinking counts towards max_tokens and must stay below it
            laid.pop("thinking", None)
        return Asked(body.get("stream") is True, laid, most, more_in=more)

    def asks_for(self, path: str, body: Mapping[str, Json]) -> str:
        return named_in(body)

    def upstream(self, path: str, model: str) -> str:
        return "/v1/messages"

    def named(self, body: Mapping[str, Json], model: str) -> Mapping[str, Json]:
        return {**body, "model": model}

    def keyed(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key} if key else {}

    def plainest(self, model: str) -> tuple[str, Mapping[str, Json]]:
        return "/v1/messages", {"model": model, "messages": [{"role": "user", "content": PING}]}

    def tally(self, asked: Asked) -> AnthropicTally:
        return AnthropicTally()

    def usable(self, reply: Mapping[str, Json]) -> bool:
        return isinstance(reply.get("content"), list)

    def error(self, status: int, kind: str, message: str) -> dict[str, Json]:
        return {"type": "error", "error": {"type": _KINDS.get(status, "api_error"), "message": message}}


class AnthropicTally:
    """Input tokens come first, output tokens grow; cache reads and writes are input too."""

    def __init__(self) -> None:
        self.counted = Counted()
        self.text = Said()
        self.last = False
        self.finished = False

    def take(self, event: Mapping[str, Json]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._usage(table(table(event.get("message")).get("usage")))
        elif kind == "message_delta":
            self._usage(table(event.get("usage")))
            self.last = table(event.get("delta")).get("stop_reason") is not None and self.counted.tokens_out is not None
        elif kind == "message_stop":
            self.finished = True
        elif kind == "content_block_delta":
            delta = table(event.get("delta"))
            self.text.add(delta.get("text"), delta.get("partial_json"), delta.get("thinking"))
        elif kind == "message":
            self.finished = True
            self._usage(table(event.get("usage")))
            for block in rows(event.get("content")):
                self.text.add(block.get("text"), block.get("input"), block.get("thinking"))

    def _usage(self, usage: Mapping[str, Json]) -> None:
        ins, outs = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
        read = count(usage.get("cache_read_input_tokens")) or 0
        written = count(usage.get("cache_creation_input_tokens")) or 0
        # the closing event repeats the input in some servers and leaves it out in others
        known = self.counted
        self.counted = Counted(
            known.tokens_in if ins is None else max(known.tokens_in or 0, ins + read + written),
            known.tokens_out if outs is None else max(known.tokens_out or 0, outs),
            max(known.cached_in, read),
            max(known.written_in, written),
        )
