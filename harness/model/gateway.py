"""The gateway: every model call of a run goes through here, whoever makes it and however.

A call is looked up in the journal, reserved, written down, sent, counted, settled, and only then finished towards its
caller. Faults that pass are waited out; those that do not stop the run (`fault`), and no step is burnt.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
import anyio.to_thread

from harness.errors import BudgetError, IntegrityError, ModelError, StropError
from harness.model.allowance import Allowance
from harness.model.base import Asked, Caller, Dialect, Journal, Seen, refused
from harness.model.dialects import dialect_of, nearest
from harness.model.faults import Fault
from harness.model.past import Past, unsettled
from harness.model.route import Route, digest_of, find_route, key_of, route
from harness.model.sse import framed, whole
from harness.model.tokens import bound
from harness.model.trial import Request, Sink, Trial
from harness.policy.schema import BudgetPolicy, ModelPolicy
from harness.records import Json, ModelCall, Reply, Spend, Usage
from harness.streams import stream

MAX_REQUEST = 64 << 20
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0


@dataclass
class Gateway:
    """Answers calls. `fault` is why the run must stop, once that is so; `recorded_only` never asks an upstream.

    `watch` is told of each call that was really made, once it has ended.
    """

    routes: Mapping[str, Route]
    journal: Journal
    allowance: Allowance
    past: Past
    seed: int = 0
    recorded_only: bool = False
    fault: StropError | None = None
    waiting: dict[str, str] = field(default_factory=dict[str, str])
    replayed: int = 0
    refused: BudgetError | None = None
    refusals: dict[Caller, BudgetError] = field(default_factory=dict[Caller, BudgetError])
    watch: Callable[[Seen], None] | None = None

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
    ) -> None:
        """One POST of `caller`'s, answered into `sink`; refusals have the dialect's own shape."""
        dialect = dialect_of(path)
        if dialect is None:
            await give(sink, refused(nearest(path), 404, "not_found", f"the gateway does not serve {path[:200]}"))
            return
        try:
            body = whole(raw)
            found = find_route(self.routes, dialect.asks_for(path, body))
            if found is None:
                known = ", ".join(self.routes) or "none"
                reply = refused(dialect, 404, "model_not_found", f"no such model here; the policy has: {known}")
                await give(sink, reply)
                return
            asked = dialect.read(path, body, cap=found.policy.max_output_tokens)
        except ValueError as error:
            await give(sink, refused(dialect, 400, "invalid_request_error", str(error)))
            return
        digest = digest_of(dialect, path, body)
        known = self.past.take(caller, digest)
        if known is not None and known.reply is not None:
            self.replayed += 1
            await give(sink, known.reply)
        elif self.recorded_only:
            self.fault = self.fault or IntegrityError(
                f"model call {digest[:12]} of ticket {caller.ticket}", expected="a recorded reply", found="none"
            )
            await give(sink, refused(dialect, 503, "not_recorded", "this call is not in the run's journal"))
        else:
            call = ModelCall(
                caller.ticket, caller.role, 0, digest, found.name, dialect.name, caller.variant, Spend(), Spend(), None
            )
            call = replace(call, call=self.past.number(caller)) if known is None else unsettled(known)
            request = found.request(dialect, path, query, asked, headers or {})
            await _Paid(self, found, request, call, sink).run()

    def usage(self) -> dict[str, Usage]:
        """The budget lines of model calls that have a limit or were used."""
        lines = self.allowance.usage()
        return {kind: usage for kind, usage in lines.items() if usage.used or usage.limit is not None}

    def models(self) -> dict[str, Json]:
        """What `/v1/models` lists."""
        rows: list[Json] = [{"id": name, "object": "model", "created": 0, "owned_by": "strop"} for name in self.routes]
        return {"object": "list", "data": rows}


@dataclass
class _Paid:
    """One call that is not in the journal, from its first try to its last."""

    gateway: Gateway
    route: Route
    request: Request
    call: ModelCall
    sink: Sink
    cached_in: int = 0
    error: str = "cancelled"

    async def run(self) -> None:
        """Answer it; then tell who watches, however it ended."""
        began = time.time_ns()
        try:
            await self._run()
        finally:
            if self.gateway.watch is not None:
                self.gateway.watch(self._seen(began))

    def _seen(self, began_ns: int) -> Seen:
        call, route = self.call, self.route
        return Seen(
            Caller(call.ticket, call.role, call.variant),
            route.model,
            route.policy.base_url,
            call.dialect,
            self.request.asked.most_out,
            began_ns,
            call.spent,
            self.cached_in,
            self.error,
        )

    async def _run(self) -> None:
        give_up = time.monotonic() + self.route.policy.patience_s
        tries = 0
        while True:
            if self.gateway.fault is not None:
                await self._refuse(503, "upstream_down", self.gateway.fault.message)
                return
            tries += 1
            try:
                with anyio.fail_after(max(0.0, give_up - time.monotonic())):
                    await self.route.breaker.admit()
            except TimeoutError:
                await self._give_up("it stayed down")
                return
            async with self.route.slots:
                fault = await self._try()
            if fault is None:
                self.gateway.waiting.pop(self.route.name, None)
                return
            pause = self._pause(fault, tries)
            if time.monotonic() + pause > give_up:
                await self._give_up(fault.reason)
                return
            self.gateway.waiting[self.route.name] = fault.reason
            await anyio.sleep(pause)

    async def _try(self) -> Fault | None:
        """One try; None when the caller has its answer, good or bad, and the fault when it may pass."""
        worst = self._worst()
        try:
            self.gateway.allowance.reserve(worst)
        except BudgetError as error:
            self.route.breaker.abandoned()
            await self._over_budget(error)
            return None
        trial = Trial(self.route.client, self.route.policy, self.request, self.sink)
        self.call = replace(self.call, held=worst)
        settled = False
        try:
            await self.gateway.journal.begin_call(self.call, self.request.body)
            reply = await trial.run()
            self.route.breaker.succeeded()
            self.route.worked = True
            settled = True
            await self._settle(worst, trial, reply)
            self.error = ""
        except Fault as fault:
            settled = True
            self.error = str(fault.status) if fault.reply is not None else "upstream"
            return await self._failed(fault, worst, trial)
        finally:
            if not settled:
                # the caller went away, or the disk did
                with anyio.CancelScope(shield=True):
                    self.route.breaker.abandoned()
                    await self._settle(worst, trial, None)
        await self._finish(reply, trial)
        return None

    async def _finish(self, reply: Reply, trial: Trial) -> None:
        if not trial.started:
            await self.sink.start(reply.status, reply.media)
        await self.sink.chunk(trial.tail)

    async def _failed(self, fault: Fault, worst: Spend, trial: Trial) -> Fault | None:
        kept = fault.reply if not fault.passing and not fault.final and not trial.started else None
        await self._settle(worst, trial, kept)
        if fault.passing:
            self.route.breaker.failed(fault.wait_s)
        else:
            self.route.breaker.abandoned()
        if trial.started:
            # what the client has cannot be taken back: say so in the stream, and end it
            await self.sink.chunk(framed(self.request.dialect.error(502, "stream_cut", fault.reason), "error"))
            return None
        if fault.passing:
            return fault
        if fault.final or (fault.status == 404 and not self.route.worked):
            self._stop(f"{fault.reason}: {_excerpt(fault.reply)}")
        dialect = self.request.dialect
        await give(self.sink, fault.reply or refused(dialect, fault.status, "upstream_error", fault.reason))
        return None

    async def _settle(self, worst: Spend, trial: Trial, reply: Reply | None) -> None:
        """What the try took, in the budget and on disk."""
        counted, estimated = trial.counted()
        self.cached_in += counted.cached_in
        price = self.route.price
        spent = Spend(1, counted.tokens_in or 0, counted.tokens_out or 0, price.of(counted), estimated)
        self.gateway.allowance.settle(self.call.role, worst, spent)
        self.call = replace(self.call, held=Spend(), spent=self.call.spent + spent, reply=reply)
        with anyio.CancelScope(shield=True):
            await self.gateway.journal.finish_call(self.call)

    async def _over_budget(self, error: BudgetError) -> None:
        self.error = "budget"
        self.gateway.refused = self.gateway.refused or error
        self.gateway.refusals[Caller(self.call.ticket, self.call.role, self.call.variant)] = error
        reply = refused(self.request.dialect, 429, "insufficient_quota", f"strop: {error.message}")
        self.call = replace(self.call, held=Spend(), reply=reply)
        await self.gateway.journal.begin_call(self.call, self.request.body)
        await self.gateway.journal.finish_call(self.call)
        await give(self.sink, reply)

    async def _give_up(self, reason: str) -> None:
        self._stop(f"{reason}, for {self.route.policy.patience_s:g} s")
        await self._refuse(503, "upstream_down", reason)

    async def _refuse(self, status: int, kind: str, message: str) -> None:
        await give(self.sink, refused(self.request.dialect, status, kind, message))

    def _stop(self, reason: str) -> None:
        mend = (
            f"check base_url, model and api_key_env of models.{self.route.name}; "
            f"`strop doctor --model {self.route.name}` tries it with one call; then `strop resume`"
        )
        self.gateway.fault = self.gateway.fault or ModelError(self.route.name, reason=reason, mend=mend)

    def _worst(self) -> Spend:
        ins, outs = bound(self.request.body), self.request.asked.most_out
        return Spend(1, ins, outs, self.route.price.most(ins, outs))

    def _pause(self, fault: Fault, tries: int) -> float:
        """Seconds before the next try: what the upstream asked for, else doubling, with jitter of a quarter."""
        draw = stream(self.gateway.seed, "retry", self.call.digest, tries).uniform(0.75, 1.25)
        doubled = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1))
        return float(draw * doubled) if fault.wait_s is None else fault.wait_s + 0.1 * float(draw)


async def give(sink: Sink, reply: Reply) -> None:
    """A whole reply at once."""
    await sink.start(reply.status, reply.media)
    await sink.chunk(reply.body)


class Collected:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.status = 0
        self.media = ""
        self._body = bytearray()

    async def start(self, status: int, media: str) -> None:
        self.status, self.media = status, media

    async def chunk(self, data: bytes) -> None:
        self._body += data

    @property
    def reply(self) -> Reply:
        """What was given, as one reply."""
        return Reply(self.status, self.media, bytes(self._body))


async def ask(gateway: Gateway, caller: Caller, path: str, body: Mapping[str, Json]) -> Reply:
    """One call from inside the harness, without HTTP in between. Raises the gateway's fault."""
    sink = Collected()
    await gateway.answer(caller, path, json.dumps(body).encode(), sink)
    gateway.check()
    return sink.reply


@asynccontextmanager
async def open_gateway(
    models: Mapping[str, ModelPolicy],
    budget: BudgetPolicy,
    journal: Journal,
    *,
    seed: int = 0,
    environment: Mapping[str, str] | None = None,
    recorded_only: bool = False,
) -> AsyncGenerator[Gateway]:
    """A gateway over a run's journal: what earlier sessions used is in its budget, what they were told is told again.

    Raises InputError for a key that is not set and for a model without a price under a budget in dollars.
    """
    calls = await journal.calls()
    allowance = Allowance.of(budget)
    allowance.restore((call.role, call.spent, call.held) for call in calls)
    routes = await anyio.to_thread.run_sync(_routes, models, budget.usd is not None, environment, recorded_only)
    try:
        yield Gateway(routes, journal, allowance, Past(calls), seed, recorded_only)
    finally:
        with anyio.CancelScope(shield=True):
            for one in routes.values():
                with anyio.move_on_after(2.0):
                    await one.client.aclose()


def _routes(
    models: Mapping[str, ModelPolicy], priced: bool, environment: Mapping[str, str] | None, recorded_only: bool
) -> dict[str, Route]:
    def key(name: str, policy: ModelPolicy) -> str:
        return "" if recorded_only else key_of(name, policy, environment)

    return {name: route(name, policy, priced=priced, key=key(name, policy)) for name, policy in models.items()}


def _excerpt(reply: Reply | None) -> str:
    from harness.untrusted import line  # noqa: PLC0415 - only faults need it

    return "" if reply is None else line(reply.body, 200)


def told(calls: Sequence[ModelCall]) -> dict[str, Spend]:
    """What calls took, by role."""
    by_role: dict[str, Spend] = {}
    for call in calls:
        by_role[call.role] = by_role.get(call.role, Spend()) + call.spent + call.held
    return by_role


__all__ = ["Asked", "Collected", "Dialect", "Gateway", "ask", "give", "open_gateway", "told"]
