"""Is a `base_url` the address of a model's server at all? Told from what answers there, without spending a token.

Said only where it is beyond doubt: where even an empty request to every endpoint that an agent could ask for is
answered by a redirect, by a web page, or by nobody knowing the path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2

from harness.model.faults import NOWHERE, is_page
from harness.untrusted import line

# what people paste from an example of a request; the gateway adds it itself
_ENDPOINT = re.compile(
    r"(/chat/completions|(?<=/v1)/(completions|responses|messages|embeddings|models)|(?<=/v1beta)/models)$"
)
_VERSIONS = ("/v1", "/api/v1", "/openai/v1", "/v1beta")


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with an address, and the one that would be right, where that is known."""

    reason: str
    better: str = ""


def misspelled(address: str) -> Wrong | None:
    """What the address itself shows to be wrong."""
    if (found := _ENDPOINT.search(address)) is None:
        return None
    return Wrong(f"its base_url ends in {found[0]}, which is added for each call", address[: found.start()])


async def other_scheme(address: str, limit: float) -> Wrong | None:
    """Whether the server speaks https where http is written, or the other way round. No key is sent."""
    scheme = urlsplit(address).scheme
    other = {"http": "https", "https": "http"}.get(scheme, "")
    better = other + address.removeprefix(scheme)
    try:
        # certificates are not looked at: nothing is told, and nothing believed but that it speaks TLS
        async with httpx2.AsyncClient(timeout=limit, trust_env=False, verify=False) as client:
            answer = await client.get(f"{better}/models")
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return None
    if other == "http" and tells_of_tls(answer):
        return None
    return Wrong(f"{address} speaks {other}, not {scheme}", better)


def tells_of_tls(answer: httpx2.Response) -> bool:
    """Whether a server for https says that it was asked over http."""
    return answer.status_code == 400 and b"HTTPS" in answer.content[:2000]


def astray(answer: httpx2.Response) -> str:
    """How `answer` shows that no model's server is there; "" when it may be one."""
    if answer.is_redirect or 300 <= answer.status_code < 400:
        return f"redirects to {line(answer.headers.get('location', 'nowhere'), 200)}"
    if is_page(answer.headers.get("content-type", ""), answer.content) and answer.status_code < 400:
        return "answers with a web page"
    if answer.status_code in NOWHERE and not _knows_models(answer):
        return f"has no model's API (HTTP {answer.status_code})"
    return ""


async def nowhere(
    client: httpx2.AsyncClient, address: str, model: str, headers: Mapping[str, str], first: httpx2.Response
) -> Wrong | None:
    """Whether no endpoint is at `address`, whose list of models was answered by `first`. Raises httpx2.HTTPError."""
    told = astray(first)
    if not told:
        return None
    root = address.removesuffix("/v1").removesuffix("/v1beta")
    places = [f"{address}{path}" for path in ("/chat/completions", "/completions", "/responses")]
    for place in (*places, f"{root}/v1/messages", f"{root}/v1beta/models/{model}:generateContent"):
        answer = await client.post(place, json={}, headers=headers)
        if not astray(answer):
            return None
    if first.is_redirect:
        where = str(first.headers.get("location", ""))
        better = where.removesuffix("/").removesuffix("/models") if where.startswith(("http://", "https://")) else ""
        return Wrong(f"{address} {told}", better.partition("?")[0])
    for version in _VERSIONS:
        answer = await client.get(f"{address}{version}/models", headers=headers)
        if answer.status_code in {200, 401, 403} and not astray(answer):
            return Wrong(f"{address} {told}", address + version)
    return Wrong(f"{address} {told}")


def _knows_models(answer: httpx2.Response) -> bool:
    """Whether a "not found" is said of a model, and so by its server."""
    return not is_page("", answer.content) and b"model" in answer.content[:2000].lower()
