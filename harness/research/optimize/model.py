"""Who answers an optimizer's requests: the run's gateway, under the policy's name for the role, or a world."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import AgentError, BudgetError
from harness.model.base import Caller
from harness.model.gateway import ask
from harness.model.route import DEFAULT
from harness.model.server import Server
from harness.optimizer.base import Endpoint, Reply, Request, Role, Usage
from harness.optimizer.wording import render_request
from harness.records import Json
from harness.research.optimize.source import PromptWorld
from harness.research.roles import ACCOUNTS
from harness.streams import derive

CHAT = "/v1/chat/completions"
_REFUSED = re.compile(rb"strop: budget (\w+):")
_SPENT = {b"tokens_in": "tokens in", b"tokens_out": "tokens out", b"usd": "dollars"}
_CRITIQUES = frozenset({"critique", "backward", "lesson", "summarise", "describe"})


@dataclass(frozen=True, slots=True)
class WorldModel:
    """The simulated model of a world; nothing is spent."""

    world: PromptWorld
    seed: int

    async def complete(self, ticket: int, role: Role, request: Request) -> Reply:
        """See `Model`."""
        return self.world.complete(request, derive(self.seed, "critic", ticket, role, request.tag))

    def check(self, ticket: int) -> None:
        """See `Model`."""

    def endpoint(self, ticket: int, role: Role) -> Endpoint:
        """See `Model`."""
        raise AgentError("a simulated model has no address", mend="take a subject whose policy names a model")


@dataclass(frozen=True, slots=True)
class GatewayModel:
    """Chat completions through the gateway: metered, journaled, and told again on resume.

    `name_of(role, purpose)` is the policy's model for it. The request's tag becomes the seed, so that equal requests
    are different draws and the same one is the same call again.
    """

    server: Server
    seed: int
    name_of: Callable[[Role, str], str]
    max_tokens: int
    _keys: dict[Caller, str] = field(default_factory=dict[Caller, str], repr=False)

    async def complete(self, ticket: int, role: Role, request: Request) -> Reply:
        """See `Model`. Raises BudgetError when the budget refuses the call, ModelError when the upstream is gone."""
        body: dict[str, Json] = {
            "model": self.name_of(role, request.purpose),
            "messages": [{"role": who, "content": said} for who, said in _messages(request)],
            "temperature": request.temperature,
            "max_tokens": self.max_tokens,
            "seed": derive(self.seed, "request", request.purpose, request.tag) % 2**31,
        }
        reply = await ask(self.server.gateway, Caller(ticket, ACCOUNTS[role]), CHAT, body)
        if reply.status == 429 and b"insufficient_quota" in reply.body:
            raise BudgetError(_refused_kind(reply.body), limit=0, used=0, asked=1)
        return read_chat(reply.status, reply.body)

    def check(self, ticket: int) -> None:
        """See `Model`."""
        gateway = self.server.gateway
        gateway.check()
        for role in Role:
            if (refusal := gateway.refusals.get(_hosted(ticket, role))) is not None:
                raise refusal

    def endpoint(self, ticket: int, role: Role) -> Endpoint:
        """See `Model`."""
        caller = _hosted(ticket, role)
        if caller not in self._keys:
            self._keys[caller] = self.server.key(caller)
        return Endpoint(f"{self.server.url}/v1", self._keys[caller], self.name_of(role, ""))


def _hosted(ticket: int, role: Role) -> Caller:
    return Caller(ticket, ACCOUNTS[role], "hosted")


def _refused_kind(body: bytes) -> str:
    """What our own refusal says was spent; without its numbers, which differ with what else was under way."""
    found = _REFUSED.search(body)
    return _SPENT.get(found[1], "model calls") if found else "model calls"


def _messages(request: Request) -> tuple[tuple[str, str], ...]:
    return request.messages or (("user", render_request(request)),)


def read_chat(status: int, body: bytes) -> Reply:
    """A chat completion's text; None when there is none, or when it was cut off before its end."""
    try:
        whole: Any = json.loads(body)
        choice: Any = whole["choices"][0]
        text: Any = choice["message"]["content"]
        spent: Mapping[str, Any] = whole.get("usage") or {}
    except (ValueError, TypeError, LookupError):
        return Reply(None, f"status {status}: no completion in the reply")
    usage = Usage(int(spent.get("prompt_tokens") or 0), int(spent.get("completion_tokens") or 0))
    if choice.get("finish_reason") == "length":
        return Reply(None, "cut off at its length limit", usage)
    if not isinstance(text, str) or not text.strip():
        return Reply(None, "an empty reply", usage)
    return Reply(text, "", usage)


def names(proposes: str, gradient: str, editor: str, evaluates: str, serves: str) -> Callable[[Role, str], str]:
    """Which model a role and purpose go to. Critiques may have a model of their own, and so may edits."""

    def name_of(role: Role, purpose: str) -> str:
        if role is Role.EVALUATES:
            return evaluates or proposes
        if role is Role.SERVES:
            return serves or DEFAULT
        return (gradient if purpose in _CRITIQUES else editor) or proposes

    return name_of
