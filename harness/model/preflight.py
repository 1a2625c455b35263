"""Is there anybody at the addresses of a policy's models? Asked before a run writes or spends anything; costs no token.

Only what is beyond doubt is refused: nobody listens, the key is no key, or it is the address of something else. A
server that lists no models, is busy or keeps its list to other keys is given its chance; the gateway tells the rest at
the first call.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import anyio
import httpx2

from harness.errors import ModelError
from harness.model.address import Wrong, misspelled, nowhere, other_scheme, tells_of_tls
from harness.model.blackout import Secret
from harness.model.hush import quietly
from harness.model.route import key_of
from harness.policy.schema import ModelPolicy

LONGEST_S = 10.0
UNAUTHORIZED = 401
# how the resolvers of glibc, musl and macOS say it
_NO_HOST = ("Name or service not known", "No address associated", "name resolution", "nodename nor servname")


async def preflight(models: Mapping[str, ModelPolicy], environment: Mapping[str, str] | None = None) -> None:
    """Look at each model's server once. Raises ModelError for one that cannot be reached or refuses the key."""
    found: dict[str, ModelError | None] = {}

    async def look(name: str, model: ModelPolicy) -> None:
        with quietly():
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
    if (wrong := misspelled(address)) is not None:
        return _wrong(name, wrong, Secret(key))
    local = urlsplit(address).hostname in {"127.0.0.1", "localhost", "::1"}
    wrong = None
    try:
        async with httpx2.AsyncClient(timeout=limit, trust_env=not local) as client:
            headers = _headers(address, key)
            answer = await client.get(f"{address}/models", headers=headers)
            if tells_of_tls(answer):
                wrong = await other_scheme(address, limit)
            elif answer.status_code == UNAUTHORIZED:
                return ModelError(name, reason=f"{address} answers HTTP 401", mend=key_mend(name, model))
            else:
                wrong = await nowhere(client, address, model.model or name, headers, answer)
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        wrong = await other_scheme(address, limit) if address.startswith("https:") else None
        if wrong is None:
            told = f"cannot connect to {address}: {_said(error, limit)}"
            return ModelError(name, reason=told, mend=_start(name, model, told))
    except (httpx2.RemoteProtocolError, httpx2.ReadError):
        wrong = await other_scheme(address, limit)
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return None
    return None if wrong is None else _wrong(name, wrong, Secret(key))


def _wrong(name: str, wrong: Wrong, secret: Secret) -> ModelError:
    correct = (
        f"correct base_url of models.{name} to that of the API itself (OpenAI-compatible servers mostly end in /v1)"
    )
    reason, better = (secret.out_of(text.encode()).decode() for text in (wrong.reason, wrong.better))
    mend = f"set base_url of models.{name} to {better}" if better else correct
    return ModelError(name, reason=reason, mend=f"{mend}; nothing was written or spent")


def key_mend(name: str, model: ModelPolicy) -> str:
    """What to do about a key that is refused."""
    key = (
        f"the key in {model.api_key_env} is refused"
        if model.api_key_env
        else "no key was sent, for no api_key_env is set, and the server wants a key"
    )
    return f"{key}: set api_key_env of models.{name} to a variable that holds a good one"


def start_mend(name: str, model: ModelPolicy, told: str = "") -> str:
    """What to do where nothing listens; `told` is what connecting said."""
    if any(sign in told for sign in _NO_HOST):
        host = urlsplit(model.base_url).hostname
        return f"no machine called {host} is known here: correct base_url of models.{name}, or look at DNS and network"
    return f"nothing listens at {model.base_url}: start the server, or correct base_url of models.{name}"


def _start(name: str, model: ModelPolicy, told: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in told:
        return (
            f"{model.base_url} shows a certificate that is not trusted here: SSL_CERT_FILE names a file of more roots"
        )
    return f"{start_mend(name, model, told)}; nothing was written or spent"


def _said(error: Exception, limit: float) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return f"no connection within {limit:g} s"
    return str(error)[:200] or "the connection broke"


def _headers(address: str, key: str) -> dict[str, str]:
    if not key:
        return {}
    own = {"x-api-key": key, "anthropic-version": "2023-06-01"} if "anthropic" in address else {}
    return {"authorization": f"Bearer {key}", **own}
