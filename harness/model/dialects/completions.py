"""`/v1/completions`, the older one."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.base import PING, Asked
from harness.model.dialects import allowed
from harness.model.dialects.chat import ChatTally
from harness.model.dialects.fields import capped, copies, one_limit, options, rows
from harness.model.dialects.openai import OpenAi
from harness.records import Json


class Completions(OpenAi):
    """Text completions, also as a stream."""

    name = "completions"
    path = "/completions"

    def read(self, path: str, body: Mapping[str, Json], *, cap: int) -> Asked:
        laid, most = capped(
            allowed.kept(one_limit(body), allowed.COMPLETIONS | {"prompt"}), ("max_tokens",), "max_tokens", cap
        )
        prompt = body.get("prompt")
        prompts = len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
        stream = body.get("stream") is True
        dropped = False
        if stream:
            wanted = options(body, "stream_options")
            dropped = wanted.get("include_usage") is not True
            laid["stream_options"] = {**wanted, "include_usage": True}
        return Asked(stream, laid, most * prompts * copies(body, "n", "best_of"), dropped)

    def plainest(self, model: str) -> tuple[str, Mapping[str, Json]]:
        return self.path, {"model": model, "prompt": PING}

    def tally(self, asked: Asked) -> ChatTally:
        return ChatTally()

    def usable(self, reply: Mapping[str, Json]) -> bool:
        first = next(rows(reply.get("choices")), None)
        return first is not None and isinstance(first.get("text"), str)
