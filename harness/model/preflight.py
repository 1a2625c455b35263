"""Is there anybody at the addresses of a policy's models? Asked before a run writes or spends anything; costs no token.

Only what is beyond doubt is refused: nobody listens, or the key is no key. A server that lists no models, is busy or
keeps its list to other keys is given its chance; the gateway tells the rest at the first call.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import anyio
import httpx2

from harness.errors import ModelError
from harness.model.route import key_of
from harness.policy.schema import ModelPolicy

LONGEST_S = 10.0
UNAUTHORIZED = 401


async def preflight(models: Mapping[str, ModelPolicy], environment: Mapping[str, str] | None = None) -> None:
    """Look at each model's server once. Raises ModelError for one that cannot be reached or refuses the key."""
    found: dict[str, ModelError | None] = {}

    async def look(name: str, model: ModelPolicy) -> None:
        found[name] = await _trouble(name, model, environment)

    async with anyio.create_task_group() as group:
        for name, model in models.items():
            group.start_soon(look, name, model)
    for name in models:
        if (error := found[name]) is not None:
            raise error


async def _trouble(name: str, model: ModelPolicy, environment: Mapping[str, str] | None) -> ModelError | None:
    key = key_of(name, model, environment)
    limit = min(model.connect_s, LONGEST_S)
    address = model.base_url.rstrip("/")
    local = urlsplit(address).hostname in {"127.0.0.1", "localhost", "::1"}
    try:
        async with httpx2.AsyncClient(timeout=limit, trust_env=not local) as client:
            answer = await client.get(f"{address}/models", headers=_headers(address, key))
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        return ModelError(name, reason=f"cannot connect to {address}: {_said(error, limit)}", mend=_start(name, model))
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return None
    if answer.status_code == UNAUTHORIZED:
        return ModelError(name, reason=f"{address} answers HTTP 401", mend=key_mend(name, model))
    return None


def key_mend(name: str, model: ModelPolicy) -> str:
    """What to do about a key that is refused."""
    key = f"the key in {model.api_key_env} is refused" if model.api_key_env else "the server wants a key"
    return f"{key}: set api_key_env of models.{name} to a variable that holds a good one"


def start_mend(name: str, model: ModelPolicy) -> str:
    """What to do where nothing listens."""
    return f"nothing listens at {model.base_url}: start the server, or correct base_url of models.{name}"


def _start(name: str, model: ModelPolicy) -> str:
    return f"{start_mend(name, model)}; nothing was written or spent"


def _said(error: Exception, limit: float) -> str:
    return f"no connection within {limit:g} s" if isinstance(error, httpx2.ConnectTimeout) else str(error)[:200]


def _headers(address: str, key: str) -> dict[str, str]:
    if not key:
        return {}
    own = {"x-api-key": key, "anthropic-version": "2023-06-01"} if "anthropic" in address else {}
    return {"authorization": f"Bearer {key}", **own}
