"""Gemini's `models/NAME:generateContent` and `:streamGenerateContent`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.model.base import PING, Asked, Counted
from harness.model.dialects import allowed
from harness.model.dialects.fields import capped, copies, count, must_list, options, rows, table
from harness.model.dialects.gemini_embeddings import gemini_error
from harness.model.tokens import Said
from harness.records import Json

_PATH = re.compile(r"(?:/v1beta|/v1|/v1alpha)?/models/([^/:]+):(generateContent|streamGenerateContent)")


class Gemini:
    """Content generation; the model and whether it streams stand in the path."""

    name = "gemini"
    writes = True

    def speaks(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    def read(self, path: str, body: Mapping[str, Json], *, cap: int) -> Asked:
        match = _PATH.fullmatch(path)
        must_list(body, "contents")
        if match is None:
            raise ValueError("the model must stand in the path")
        laid = allowed.kept(allowed.camel(body), allowed.GEMINI)
        for tool in rows(laid.get("tools")):
            if strange := set(allowed.camel(tool)) - {"functionDeclarations"}:
                raise ValueError(f"the tool {min(strange)[:60]} runs on the server and cannot be metered here")
        more = allowed.gemini_tokens(laid.get("contents")) + allowed.gemini_tokens([laid.get("systemInstruction")])
        more += allowed.TOOLS_TOKENS if laid.get("tools") else 0
        config = allowed.kept(allowed.camel(options(laid, "generationConfig")), allowed.GENERATION)
        config, most = capped(config, ("maxOutputTokens",), "maxOutputTokens", cap)
        laid["generationConfig"] = config
        most *= copies(config, "candidateCount")
        return Asked(match[2] == "streamGenerateContent", laid, most, more_in=more)

    def asks_for(self, path: str, body: Mapping[str, Json]) -> str:
        match = _PATH.fullmatch(path)
        if match is None:
            raise ValueError("the model must stand in the path")
        return match[1]

    def named(self, body: Mapping[str, Json], model: str) -> Mapping[str, Json]:
        return body

    def upstream(self, path: str, model: str) -> str:
        match = _PATH.fullmatch(path)
        assert match is not None
        return f"/v1beta/models/{model}:{match[2]}"

    def keyed(self, key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def plainest(self, model: str) -> tuple[str, Mapping[str, Json]]:
        return "/v1beta/models/any:generateContent", {"contents": [{"role": "user", "parts": [{"text": PING}]}]}

    def tally(self, asked: Asked) -> GeminiTally:
        return GeminiTally()

    def usable(self, reply: Mapping[str, Json]) -> bool:
        return isinstance(reply.get("candidates"), list) or isinstance(reply.get("promptFeedback"), dict)

    def error(self, status: int, kind: str, message: str) -> dict[str, Json]:
        return gemini_error(status, message)


class GeminiTally:
    """Every event repeats the usage so far; thoughts are output."""

    def __init__(self) -> None:
        self.counted = Counted()
        self.text = Said()
        self.last = False  # with several candidates, what one of them ends with is not the last word
        self.finished = False

    def take(self, event: Mapping[str, Json]) -> None:
        usage = table(event.get("usageMetadata"))
        if usage:
            ins, outs = count(usage.get("promptTokenCount")), count(usage.get("candidatesTokenCount"))
            thoughts = count(usage.get("thoughtsTokenCount")) or 0
            tools = count(usage.get("toolUsePromptTokenCount")) or 0
            self.counted = Counted(
                self.counted.tokens_in if ins is None else ins + tools,
                self.counted.tokens_out if outs is None and not thoughts else (outs or 0) + thoughts,
                count(usage.get("cachedContentTokenCount")) or 0,
            )
        for candidate in rows(event.get("candidates")):
            self.finished = self.finished or candidate.get("finishReason") is not None
            for part in rows(table(candidate.get("content")).get("parts")):
                self.text.add(part.get("text"), part.get("functionCall"))
