"""`/v1/responses`."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.base import PING, Asked, Counted
from harness.model.dialects import allowed
from harness.model.dialects.fields import capped, rows, table
from harness.model.dialects.openai import OpenAi, usage_of
from harness.model.tokens import Said
from harness.records import Json

_ENDS = {"response.completed", "response.incomplete", "response.failed"}


class Responses(OpenAi):
    """The Responses API, whole or as typed events."""

    name = "responses"
    path = "/responses"

    def read(self, path: str, body: Mapping[str, Json], *, cap: int) -> Asked:
        found = allowed.kept(body, allowed.RESPONSES)
        if found.get("tools") is not None:
            found["tools"] = allowed.offered(found["tools"])
        more = allowed.TOOLS_TOKENS if found.get("tools") else 0
        for item in allowed.items(found.get("input")):
            more += allowed.parts_tokens(item.get("content")) + allowed.parts_tokens(item.get("output"))
        laid, most = capped(found, ("max_output_tokens",), "max_output_tokens", cap)
        return Asked(body.get("stream") is True, laid, most, more_in=more)

    def plainest(self, model: str) -> tuple[str, Mapping[str, Json]]:
        return self.path, {"model": model, "input": PING}

    def tally(self, asked: Asked) -> ResponsesTally:
        return ResponsesTally()

    def usable(self, reply: Mapping[str, Json]) -> bool:
        return isinstance(reply.get("output"), list)


class ResponsesTally:
    """Counts a response: usage of the closing event, text from deltas, or from the whole when there were none."""

    def __init__(self) -> None:
        self.counted = Counted()
        self.text = Said()
        self.last = False
        self.finished = False

    def take(self, event: Mapping[str, Json]) -> None:
        kind = event.get("type")
        if isinstance(kind, str) and kind.startswith("response."):
            if kind.endswith(".delta"):
                self.text.add(event.get("delta"))
            if kind in _ENDS:
                self._close(table(event.get("response")))
            return
        self._close(event)

    def _close(self, response: Mapping[str, Json]) -> None:
        self.finished = True
        self.counted = usage_of(response.get("usage"))
        self.last = self.counted.tokens_out is not None
        if not self.text.size:
            for item in rows(response.get("output")):
                self.text.add(item.get("arguments"))
                for part in (*rows(item.get("content")), *rows(item.get("summary"))):
                    self.text.add(part.get("text"))
