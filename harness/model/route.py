"""From a request to the upstream that answers it: which model, which key, which address."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import anyio

from harness.errors import InputError
from harness.model.base import Asked, Dialect
from harness.model.blackout import Secret
from harness.model.breaker import Breaker
from harness.model.dialects import betas
from harness.model.pricing import Price, price_of
from harness.model.slots import Slots
from harness.model.trial import Request
from harness.model.upstream import Upstream, upstream
from harness.policy.schema import ModelPolicy
from harness.records import Json

DEFAULT = "default"
CAUSELESS, BELIEVED_S = 3, 60.0
# what clients put in to be told apart by, and no part of what is asked
_VOLATILE = ("user", "metadata", "client_metadata", "prompt_cache_key", "safety_identifier")


@dataclass
class Route:
    """One upstream: its policy, its price, its key, and how it has been doing."""

    name: str
    policy: ModelPolicy
    price: Price
    upstream: Upstream
    secret: Secret = field(repr=False)
    slots: Slots
    breaker: Breaker = field(default_factory=Breaker)
    worked: bool = False
    """Whether a call of the run was ever answered."""
    home: Dialect | None = None
    """The last dialect it wrote an answer in."""
    good_at: float = -math.inf
    """When the latest of the requests that were answered was sent, as a monotonic time in seconds."""
    bad_at: float = -math.inf
    """When the latest plain question that was not answered was asked."""
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    cleared_at: float = -math.inf
    suspects: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """(ticket, role) of the calls that failed since the last answer."""
    causeless: Counter[tuple[int, str]] = field(default_factory=Counter[tuple[int, str]])
    """How often they raised a doubt and the upstream answered."""
    waiters: int = 0
    """How many calls wait for it to answer."""
    rebuffs: list[int] = field(default_factory=list[int])
    """The tickets whose calls it refused, one for each, while it never answered one."""

    @property
    def model(self) -> str:
        """The upstream's own name for the model."""
        return self.policy.model or self.name

    def answered(self, sent: float, dialect: Dialect) -> None:
        """A request that was sent at `sent` was answered."""
        self.good_at = max(self.good_at, sent)
        self.suspects.clear()
        if dialect.writes:
            self.home = dialect

    def cleared(self) -> None:
        """The upstream answers: it was not at fault for what its suspects were not answered."""
        self.cleared_at = time.monotonic()
        self.causeless.update(self.suspects)
        self.suspects.clear()

    def doubts(self, who: tuple[int, str]) -> bool:
        """Whether what befalls `who` says anything about the upstream: not after a few doubts without cause, for a
        while."""
        return self.causeless[who] < CAUSELESS or time.monotonic() - self.cleared_at > BELIEVED_S

    def request(self, dialect: Dialect, path: str, query: str, asked: Asked, headers: Mapping[str, str]) -> Request:
        """What goes out for `asked`."""
        laid = dict(dialect.named(asked.body, self.model))
        if dialect.name == "chat" and urlsplit(self.policy.base_url).hostname == "api.openai.com":
            # its newer models know the cap by its newer name only
            laid.setdefault("max_completion_tokens", laid.pop("max_tokens", None))
        body = json.dumps(laid, ensure_ascii=False, separators=(",", ":"))
        sent = {
            "content-type": "application/json",
            "accept": "text/event-stream" if asked.stream else "application/json",
            **dialect.keyed(self.secret.key),
        }
        if dialect.name == "messages":
            sent["anthropic-version"] = betas.version(headers.get("anthropic-version", ""))
            if beta := betas.harmless(headers.get("anthropic-beta", "")):
                sent["anthropic-beta"] = beta
        return Request(
            self._url(dialect.upstream(path, self.model), query),
            sent,
            body.encode("utf-8", "surrogatepass"),
            asked,
            dialect,
            self.secret,
        )

    def _url(self, path: str, query: str) -> str:
        base = self.policy.base_url.rstrip("/")
        if path.startswith(("/v1/", "/v1beta/")):
            # servers that speak several dialects have each below its own version
            base = base.removesuffix("/v1").removesuffix("/v1beta")
        kept = "&".join(part for part in query.split("&") if part.partition("=")[0] in {"alt", "beta"})
        return base + path + (f"?{kept}" if kept else "")


def key_of(name: str, policy: ModelPolicy, environment: Mapping[str, str] | None = None) -> str:
    """The key from the environment variable that the policy names. Raises InputError when it is not set."""
    if not policy.api_key_env:
        return ""
    key = (os.environ if environment is None else environment).get(policy.api_key_env, "").strip()
    if not key:
        raise InputError(
            f"the environment variable {policy.api_key_env} is not set",
            key=f"models.{name}.api_key_env",
            mend=f"export {policy.api_key_env}=... in the shell that runs strop; the key itself never goes in a file",
        )
    return key


def route(name: str, policy: ModelPolicy, *, priced: bool, key: str) -> Route:
    """An upstream ready to be called; its connections are the caller's to close. Blocks while it reads certificates."""
    price, slots = price_of(name, policy, needed=priced), Slots(policy.concurrency)
    return Route(name, policy, price, upstream(policy), Secret(key), slots)


def find_route(routes: Mapping[str, Route], asked: str) -> Route | None:
    """By the policy's name, then by the upstream's, then the one called "default", then the only one there is.

    Agents that know only their vendor's names are served by the last two.
    """
    if asked in routes:
        return routes[asked]
    bare = asked.rpartition("/")[2]
    for one in routes.values():
        if asked == one.model or bare in {one.name, one.model}:
            return one
    if DEFAULT in routes:
        return routes[DEFAULT]
    return next(iter(routes.values())) if len(routes) == 1 else None


def digest_of(dialect: Dialect, path: str, body: Mapping[str, Json]) -> str:
    """What makes two requests the same: dialect, path and body, less what clients add to tell callers apart."""
    kept = {name: value for name, value in body.items() if name not in _VOLATILE}
    text = json.dumps([dialect.name, path, kept], sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
