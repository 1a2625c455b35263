"""The models of a policy as each vendor's clients list them and look them up: told by the gateway itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.model.route import Route, find_route
from harness.records import Json

_PATH = re.compile(r"(.*)/models(?:/([^:]+))?")
_METHODS: list[Json] = ["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"]


def listing(routes: Mapping[str, Route], path: str, *, anthropic: bool) -> dict[str, Json] | None:
    """What a GET of `path` is answered; None when that is no list of models nor one that is there.

    A model is found by any name that a call with it would be served under, and then has that name.
    """
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    shape = _gemini if match[1].endswith(("/v1beta", "/v1alpha")) else _anthropic if anthropic else _openai
    if match[2] is not None:
        found = find_route(routes, match[2])
        return None if found is None else shape(match[2], found)
    rows: list[Json] = [shape(name, one) for name, one in routes.items()]
    if shape is _gemini:
        return {"models": rows}
    if shape is _anthropic:
        names = list(routes)
        ends: dict[str, Json] = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return {"data": rows, "has_more": False, **ends}
    return {"object": "list", "data": rows}


def _openai(name: str, route: Route) -> dict[str, Json]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "strop"}


def _anthropic(name: str, route: Route) -> dict[str, Json]:
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


def _gemini(name: str, route: Route) -> dict[str, Json]:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "version": "1",
        "outputTokenLimit": route.policy.max_output_tokens,
        "supportedGenerationMethods": _METHODS,
    }
