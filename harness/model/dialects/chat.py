"""`/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.base import PING, Asked, Counted
from harness.model.dialects import allowed
from harness.model.dialects.fields import capped, copies, must_list, one_limit, options, rows, table
from harness.model.dialects.openai import OpenAi, usage_of
from harness.model.tokens import Said
from harness.records import Json


class Chat(OpenAi):
    """Chat completions, also as a stream of chunks."""

    name = "chat"
    path = "/chat/completions"

    def read(self, path: str, body: Mapping[str, Json], *, cap: int) -> Asked:
        found = allowed.kept(one_limit(body), allowed.CHAT)
        allowed.functions_only(found.get("tools"), ("function", "custom"))
        more = allowed.TOOLS_TOKENS if found.get("tools") else 0
        for message in rows(found.get("messages")):
            if message.get("audio") is not None:
                raise ValueError("audio of an earlier reply cannot be metered here")
            more += allowed.parts_tokens(message.get("content"))
        laid, most = capped(found, ("max_completion_tokens", "max_tokens"), "max_tokens", cap)
        must_list(body, "messages")
        stream = body.get("stream") is True
        dropped = False
        if stream:
            wanted = options(body, "stream_options")
            dropped = wanted.get("include_usage") is not True
            laid["stream_options"] = {**wanted, "include_usage": True}
        return Asked(stream, laid, most * copies(body, "n"), dropped, more)

    def plainest(self, model: str) -> tuple[str, Mapping[str, Json]]:
        return self.path, {"model": model, "messages": [{"role": "user", "content": PING}]}

    def tally(self, asked: Asked) -> ChatTally:
        return ChatTally()

    def usable(self, reply: Mapping[str, Json]) -> bool:
        first = next(rows(reply.get("choices")), None)
        return first is not None and isinstance(first.get("message"), dict)


class ChatTally:
    """Counts a completion: usage from the last event that has it, text from every choice."""

    def __init__(self) -> None:
        self.counted = Counted()
        self.text = Said()
        self.last = False
        self.finished = False

    def take(self, event: Mapping[str, Json]) -> None:
        if event.get("usage") is not None:
            self.counted = usage_of(event.get("usage"))
            # some servers tell what was used so far with every piece
            self.last = event.get("choices") == [] and self.counted.tokens_out is not None
        for choice in rows(event.get("choices")):
            said = table(choice.get("message")) or table(choice.get("delta"))
            self.text.add(
                said.get("content"), said.get("reasoning_content"), said.get("tool_calls"), choice.get("text")
            )
            self.finished = self.finished or choice.get("finish_reason") is not None
