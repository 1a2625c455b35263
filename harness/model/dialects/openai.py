"""What the OpenAI dialects share: how a key travels, how paths join, what an error looks like."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.base import Counted
from harness.model.dialects.fields import count, named_in, table
from harness.records import Json


class OpenAi:
    """Base of the OpenAI dialects. `path` is what follows the base URL."""

    name = ""
    writes = True
    path = ""

    def speaks(self, path: str) -> bool:
        return path in {self.path, f"/v1{self.path}"}

    def asks_for(self, path: str, body: Mapping[str, Json]) -> str:
        return named_in(body)

    def upstream(self, path: str, model: str) -> str:
        return self.path

    def named(self, body: Mapping[str, Json], model: str) -> Mapping[str, Json]:
        return {**body, "model": model}

    def keyed(self, key: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def error(self, status: int, kind: str, message: str) -> dict[str, Json]:
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def usage_of(usage: Json) -> Counted:
    """Chat and completions: prompt and completion tokens; Responses and embeddings by their names."""
    found = table(usage)
    ins = count(found.get("prompt_tokens"))
    outs = count(found.get("completion_tokens"))
    details = table(found.get("prompt_tokens_details")) or table(found.get("input_tokens_details"))
    return Counted(
        ins if ins is not None else count(found.get("input_tokens")),
        outs if outs is not None else count(found.get("output_tokens")),
        count(details.get("cached_tokens")) or 0,
    )
