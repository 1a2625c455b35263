"""Who answers an optimizer's requests: the run's gateway, under the policy's name for the role, or a world."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.errors import AgentError, BudgetError, ModelError
from harness.model.allowance import Taken
from harness.model.base import HOSTED, Caller
from harness.model.gateway import ask_warily
from harness.model.pricing import NANO
from harness.model.route import DEFAULT
from harness.model.server import Server
from harness.optimizer.base import Endpoint, Remaining, Reply, Request, Role, Usage
from harness.optimizer.wording import render_request
from harness.records import Json, RolloutKey
from harness.research.attached import caller_of
from harness.research.optimize.replies import CUT_OFF, read_chat
from harness.research.optimize.source import PromptWorld
from harness.research.roles import ACCOUNTS
from harness.streams import derive

CHAT = "/v1/chat/completions"
MOST_MUTE = 20
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

    def took(self, key: RolloutKey) -> Usage:
        """See `Model`."""
        return Usage()

    def left(self, ticket: int) -> Remaining:
        """See `Model`."""
        return Remaining(None)

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
    _mute: dict[tuple[Role, str], int] = field(default_factory=dict[tuple[Role, str], int])

    async def complete(self, ticket: int, role: Role, request: Request) -> Reply:
        """See `Model`. Raises BudgetError when the budget refuses the call, ModelError when the upstream is gone,
        refuses the first call, or has nothing to say for too long."""
        body: dict[str, Json] = {
            "model": self.name_of(role, request.purpose),
            "messages": [{"role": who, "content": said} for who, said in _messages(request)],
            "temperature": request.temperature,
            "max_tokens": self.max_tokens,
            "seed": derive(self.seed, "request", request.purpose, request.tag) % 2**31,
        }
        caller = Caller(ticket, ACCOUNTS[role])
        reply, fresh = await ask_warily(self.server.gateway, caller, CHAT, body)
        if reply.status == 429 and b"insufficient_quota" in reply.body:
            raise BudgetError(_refused_kind(reply.body), limit=0, used=0, asked=1)
        read = read_chat(reply)
        if fresh:
            self._mind(str(body["model"]), role, read)
        return read

    def _mind(self, model: str, role: Role, read: Reply) -> None:
        """Raise ModelError after `MOST_MUTE` replies in a row without text: what is set up wrongly stays so."""
        row = self._mute[role, model] = 0 if read.text is not None else self._mute.get((role, model), 0) + 1
        if row < MOST_MUTE:
            return
        mend = f"`strop doctor --model {model}` tries it with one call; mend it and `strop resume`, or take another"
        if read.why == CUT_OFF:
            mend = f"start a new run with a larger agent.config.max_tokens ({self.max_tokens} now), or another model"
        reason = f"{row} replies in a row for the role {role.value!r} held no text, the last: {read.why}"
        self._mute[role, model] = 0
        self.server.gateway.stop(ModelError(model, reason=reason, mend=mend))
        self.server.gateway.check()

    def check(self, ticket: int) -> None:
        """See `Model`."""
        gateway = self.server.gateway
        gateway.check()
        for role in Role:
            if (refusal := gateway.refusals.get(_hosted(ticket, role))) is not None:
                raise refusal

    def took(self, key: RolloutKey) -> Usage:
        """See `Model`. One of an earlier ticket that is served again is told what it took then."""
        caller = caller_of(key)
        spent = self.server.gateway.allowance.by_maker.get((caller.role, caller.variant), Taken()).spent
        return Usage(spent.tokens_in, spent.tokens_out)

    def left(self, ticket: int) -> Remaining:
        """See `Model`."""
        gateway = self.server.gateway
        kept = gateway.keeps.of(Caller(ticket, ACCOUNTS[Role.PROPOSES]))
        left = {
            kind: gateway.allowance.left(kind, kept) for kind in ("requests", "tokens_in", "tokens_out", "nano_usd")
        }
        tokens = [amount for kind in ("tokens_in", "tokens_out") if (amount := left[kind]) is not None]
        money = left["nano_usd"]
        usd = None if money is None else money / NANO
        return Remaining(None, left["requests"], min(tokens, default=None), usd)

    def endpoint(self, ticket: int, role: Role) -> Endpoint:
        """See `Model`."""
        caller = _hosted(ticket, role)
        if caller not in self._keys:
            self._keys[caller] = self.server.key(caller)
        return Endpoint(f"{self.server.url}/v1", self._keys[caller], self.name_of(role, ""))


def _hosted(ticket: int, role: Role) -> Caller:
    return Caller(ticket, ACCOUNTS[role], HOSTED)


def _refused_kind(body: bytes) -> str:
    """What our own refusal says was spent; without its numbers, which differ with what else was under way."""
    found = _REFUSED.search(body)
    return _SPENT.get(found[1], "model calls") if found else "model calls"


def _messages(request: Request) -> tuple[tuple[str, str], ...]:
    return request.messages or (("user", render_request(request)),)


def names(proposes: str, gradient: str, editor: str, evaluates: str, serves: str) -> Callable[[Role, str], str]:
    """Which model a role and purpose go to. Critiques may have a model of their own, and so may edits."""

    def name_of(role: Role, purpose: str) -> str:
        if role is Role.EVALUATES:
            return evaluates or proposes
        if role is Role.SERVES:
            return serves or DEFAULT
        return (gradient if purpose in _CRITIQUES else editor) or proposes

    return name_of
