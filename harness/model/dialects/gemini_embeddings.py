"""Gemini's `models/NAME:embedContent` and `:batchEmbedContents`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.model.base import PING, Asked, Counted
from harness.model.dialects import allowed
from harness.model.dialects.fields import count, must_list, rows, table
from harness.model.tokens import Said
from harness.records import Json

_PATH = re.compile(r"(?:/v1beta|/v1|/v1alpha)?/models/([^/:]+):(embedContent|batchEmbedContents)")
_FIELDS = frozenset({"model", "content", "taskType", "title", "outputDimensionality"})


class GeminiEmbeddings:
    """Vectors for texts, one or many; nothing is written, so nothing comes out."""

    name = "gemini-embeddings"
    writes = False

    def speaks(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    def read(self, path: str, body: Mapping[str, Json], *, cap: int) -> Asked:
        if self._verb(path) == "embedContent":
            laid, more = _one(body)
            return Asked(stream=False, body=laid, most_out=0, more_in=more)
        must_list(body, "requests")
        found = [_one(one) for one in rows(body.get("requests"))]
        requests: list[Json] = [laid for laid, _ in found]
        return Asked(stream=False, body={"requests": requests}, most_out=0, more_in=sum(more for _, more in found))

    def asks_for(self, path: str, body: Mapping[str, Json]) -> str:
        match = _PATH.fullmatch(path)
        if match is None:
            raise ValueError("the model must stand in the path")
        return match[1]

    def upstream(self, path: str, model: str) -> str:
        return f"/v1beta/models/{model}:{self._verb(path)}"

    def named(self, body: Mapping[str, Json], model: str) -> Mapping[str, Json]:
        if "requests" not in body:
            return {**body, "model": f"models/{model}"}
        return {**body, "requests": [{**one, "model": f"models/{model}"} for one in rows(body["requests"])]}

    def plainest(self, model: str) -> tuple[str, Mapping[str, Json]]:
        return "/v1beta/models/any:embedContent", {"content": {"parts": [{"text": PING}]}}

    def keyed(self, key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def tally(self, asked: Asked) -> _Tally:
        return _Tally()

    def usable(self, reply: Mapping[str, Json]) -> bool:
        return isinstance(reply.get("embedding"), dict) or isinstance(reply.get("embeddings"), list)

    def error(self, status: int, kind: str, message: str) -> dict[str, Json]:
        return gemini_error(status, message)

    @staticmethod
    def _verb(path: str) -> str:
        match = _PATH.fullmatch(path)
        assert match is not None
        return match[2]


def _one(body: Mapping[str, Json]) -> tuple[dict[str, Json], int]:
    """(one request for a vector, what its pictures may take in beyond their bytes). Raises ValueError."""
    laid = allowed.kept(allowed.camel(body), _FIELDS)
    if not isinstance(laid.get("content"), dict):
        raise ValueError("content must be given")  # noqa: TRY004 - one error for everything malformed
    return laid, allowed.gemini_tokens([laid["content"]])


class _Tally:
    def __init__(self) -> None:
        self.counted = Counted(tokens_out=0)
        self.text = Said()
        self.last = False
        self.finished = False

    def take(self, event: Mapping[str, Json]) -> None:
        self.counted = Counted(count(table(event.get("usageMetadata")).get("promptTokenCount")), 0)
        self.finished = True


_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}


def gemini_error(status: int, message: str) -> dict[str, Json]:
    """A refusal in Gemini's shape."""
    name = "RESOURCE_EXHAUSTED" if status == 429 else _STATUS.get(status, "UNAVAILABLE")
    return {"error": {"code": status, "message": message, "status": name}}
