"""The gateway: every model call of a run goes through here, whoever makes it and however.

A call is looked up in the journal, reserved, written down, sent, counted, and finished towards its caller while it is
settled. Faults that pass are waited out; an upstream that answers nobody stops the run (`fault`), and no step is burnt.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
import anyio.to_thread

from harness.errors import BudgetError, IntegrityError, StropError
from harness.model.account import Account
from harness.model.allowance import Allowance, Keeps, KeepsNothing
from harness.model.base import HOSTED, PROPOSER, TASK, Asked, Caller, Dialect, Journal, Seen, Wait, refused
from harness.model.cassette import Cassette
from harness.model.dialects import DIALECTS, dialect_of, nearest
from harness.model.paid import OVER_BUDGET, Paid, give
from harness.model.past import Past, unsettled
from harness.model.route import Route, digest_of, find_route, key_of, route
from harness.model.sse import whole
from harness.model.trial import Sink
from harness.policy.schema import BudgetPolicy, ModelPolicy
from harness.records import Json, ModelCall, Reply, Spend, Usage


@dataclass
class Gateway:
    """Answers calls. `fault` is why the run must stop, once that is so; `recorded_only` never asks an upstream.

    `watch` is told of each call that was really made, once it has ended. A `cassette` takes the upstreams' place.
    `given` names the policy's model that callers of a role get, whatever model they ask for. `keeps` says what a caller
    has to leave of the budget; `refusals` are the first of each caller that say that the budget is spent. `raised` says
    that the budget has grown since, so that a call which it refused is made after all. `width` is how many tickets of
    the run are in flight at once; `answered` holds each role with the policy's models that ever answered it. `waiting`
    tells of each model what calls wait for; `unanswered` is the first call of a ticket's proposer since its last
    answer.
    """

    routes: Mapping[str, Route]
    journal: Journal
    allowance: Allowance
    past: Past
    seed: int = 0
    recorded_only: bool = False
    fault: StropError | None = None
    stopped: anyio.Event = field(default_factory=anyio.Event)
    waiting: dict[str, Wait] = field(default_factory=dict[str, Wait])
    unanswered: dict[tuple[int, str], Paid] = field(default_factory=dict[tuple[int, str], Paid], repr=False)
    replayed: int = 0
    keeps: Keeps = field(default_factory=KeepsNothing)
    refusals: dict[Caller, BudgetError] = field(default_factory=dict[Caller, BudgetError])
    watch: Callable[[Seen], None] | None = None
    cassette: Cassette | None = None
    raised: bool = False
    given: dict[str, str] = field(default_factory=dict[str, str])
    width: int = 1
    answered: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _first: dict[tuple[str, str], anyio.Lock] = field(default_factory=dict[tuple[str, str], anyio.Lock])

    def stop(self, error: StropError) -> None:
        """The run must stop for this; the first such reason counts."""
        self.fault = self.fault or error
        self.stopped.set()

    async def broken(self) -> None:
        """Wait until the run must stop, and raise why: who runs beside the work need not wait for its end."""
        await self.stopped.wait()
        self.check()

    def check(self) -> None:
        """Raises why the run must stop, if it must."""
        if self.fault is not None:
            raise self.fault

    async def answer(
        self,
        caller: Caller,
        path: str,
        raw: bytes,
        sink: Sink,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        wary: bool = False,
    ) -> bool:
        """One POST of `caller`'s, answered into `sink`; refusals have the dialect's own shape.

        Whether somebody was asked for it now. With `wary`, a refusal stops the run until the role's model has answered
        once: it is set up wrongly then, and all that is paid for beside it would be for nothing.
        """
        wary = wary or caller.variant == HOSTED
        dialect = dialect_of(path)
        if dialect is None:
            await give(sink, refused(nearest(path), 404, "not_found", f"the gateway does not serve {path[:200]}"))
            return False
        try:
            body = whole(raw)
            named = dialect.asks_for(path, body)
            found = find_route(self.routes, self.given.get(caller.role, named))
            if found is None:
                known = ", ".join(self.routes) or "none"
                reply = refused(dialect, 404, "model_not_found", f"no such model here; the policy has: {known}")
                await give(sink, reply)
                return False
            asked = dialect.read(path, body, cap=found.policy.max_output_tokens)
        except ValueError as error:
            await give(sink, refused(dialect, 400, "invalid_request_error", str(error)))
            return False
        digest = digest_of(dialect, path, body)
        known = self.past.take(caller, digest)
        if known is not None and self._to_be_judged_again(caller, known):
            known = unsettled(known)
        if known is not None and known.reply is not None:
            self.replayed += 1
            await give(sink, known.reply)
        elif self.recorded_only:
            what = f"model call {digest[:12]} of ticket {caller.ticket}"
            self.stop(IntegrityError(what, expected="a recorded reply", found="none"))
            await give(sink, refused(dialect, 503, "not_recorded", "this call is not in the run's journal"))
        else:
            call = ModelCall(
                caller.ticket, caller.role, 0, digest, found.name, dialect.name, caller.variant, Spend(), Spend(), None
            )
            call = replace(call, call=self.past.number(caller)) if known is None else unsettled(known)
            request = found.request(dialect, path, query, asked, headers or {})
            paid = Paid(self, found, request, Account(self, found, call, request.body), sink)
            if self.cassette is not None:
                await paid.play(self.cassette)
            elif wary:
                await self._warily(paid, (caller.role, found.name))
            else:
                await paid.run()
            return True
        return False

    async def _warily(self, paid: Paid, who: tuple[str, str]) -> None:
        """Run it, as the only one until the first has been answered: else refusals, which are quick, would come first
        where one of many requests is too long."""
        if who not in self.answered:
            async with self._first.setdefault(who, anyio.Lock()):
                if who not in self.answered:
                    paid.vital = True
                    await paid.run()
                    return
        await paid.run()

    def _to_be_judged_again(self, caller: Caller, known: ModelCall) -> bool:
        """Our own refusal under a rollout or a proposal that it broke off: no reply, so it asks the budget again.

        An optimizer's stands: what it did upon it was decided, and a resumed run decides the same.
        """
        if self.recorded_only or not (self.raised or caller.role in {TASK, PROPOSER}) or known.reply is None:
            return False
        return known.reply.status == 429 and OVER_BUDGET.encode() in known.reply.body

    async def regained(self, ticket: int, *, idle: bool) -> bool:
        """Whether a ticket's proposer, which is done, is to be asked again: it has nothing (`idle`), its last call was
        not answered because nobody was there, and now somebody is. Waits for that as the call would have; what it was
        told is told again.

        Raises BudgetError where it has nothing because the budget refused it, and why the run must stop.
        """
        self.check()
        paid = self.unanswered.pop((ticket, PROPOSER), None)
        if self.recorded_only or not idle:
            return False
        for caller, refusal in self.refusals.items():
            if (caller.ticket, caller.role) == (ticket, PROPOSER):
                raise refusal
        if paid is None:
            return False
        await paid.outlast()
        self.check()
        self.past.tell_again(paid.account.caller, await self.journal.calls())
        return True

    def usage(self) -> dict[str, Usage]:
        """The budget lines of model calls that have a limit or were used."""
        lines = self.allowance.usage()
        return {kind: usage for kind, usage in lines.items() if usage.used or usage.limit is not None}


class Collected:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.status = 0
        self.media = ""
        self._body = bytearray()

    async def start(self, status: int, media: str) -> None:
        self.status, self.media = status, media

    async def chunk(self, data: bytes, *, last: bool = False) -> None:
        self._body += data

    @property
    def reply(self) -> Reply:
        """What was given, as one reply."""
        return Reply(self.status, self.media, bytes(self._body))


async def ask(gateway: Gateway, caller: Caller, path: str, body: Mapping[str, Json]) -> Reply:
    """One call from inside the harness, without HTTP in between. Raises the gateway's fault."""
    return (await ask_warily(gateway, caller, path, body, wary=False))[0]


async def ask_warily(
    gateway: Gateway, caller: Caller, path: str, body: Mapping[str, Json], *, wary: bool = True
) -> tuple[Reply, bool]:
    """(the reply, whether it was given now and not told again), see `Gateway.answer`. Raises the gateway's fault."""
    sink = Collected()
    fresh = await gateway.answer(caller, path, json.dumps(body).encode(), sink, wary=wary)
    gateway.check()
    return sink.reply, fresh


@asynccontextmanager
async def open_gateway(
    models: Mapping[str, ModelPolicy],
    budget: BudgetPolicy,
    journal: Journal,
    *,
    seed: int = 0,
    environment: Mapping[str, str] | None = None,
    recorded_only: bool = False,
    cassette: Cassette | None = None,
) -> AsyncGenerator[Gateway]:
    """A gateway over a run's journal: what earlier sessions used is in its budget, what they were told is told again.

    Raises InputError for a key that is not set and for a model without a price under a budget in dollars.
    """
    calls = await journal.calls()
    allowance = Allowance.of(budget)
    allowance.restore(calls)
    offline = recorded_only or cassette is not None
    routes = await anyio.to_thread.run_sync(_routes, models, budget.usd is not None, environment, offline)
    _remember(routes, calls)
    try:
        gateway = Gateway(routes, journal, allowance, Past(calls), seed, recorded_only, cassette=cassette)
        gateway.answered |= {(call.role, call.model) for call in calls if call.reply and call.reply.status < 400}
        yield gateway
    finally:
        with anyio.CancelScope(shield=True):
            for one in routes.values():
                with anyio.move_on_after(2.0):
                    await one.upstream.aclose()


def _remember(routes: Mapping[str, Route], calls: Iterable[ModelCall]) -> None:
    """Which upstreams answered an earlier session, and in which dialect."""
    dialects = {one.name: one for one in DIALECTS}
    for call in calls:
        if call.model in routes and call.reply is not None and call.reply.status == 200:
            routes[call.model].worked = True
            if (spoken := dialects.get(call.dialect)) is not None and spoken.writes:
                routes[call.model].home = spoken


def _routes(
    models: Mapping[str, ModelPolicy], priced: bool, environment: Mapping[str, str] | None, offline: bool
) -> dict[str, Route]:
    def key(name: str, policy: ModelPolicy) -> str:
        return "" if offline else key_of(name, policy, environment)

    return {name: route(name, policy, priced=priced, key=key(name, policy)) for name, policy in models.items()}


__all__ = ["Asked", "Collected", "Dialect", "Gateway", "ask", "ask_warily", "give", "open_gateway"]
