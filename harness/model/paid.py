"""One call that the journal does not answer, from its first try to its last: sent, waited for, answered or given up."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from harness.errors import BudgetError, CassetteError, ModelError
from harness.model.account import Account
from harness.model.base import PROPOSER, TASK, Seen, Wait, refused
from harness.model.cassette import Cassette
from harness.model.doubt import Doubt
from harness.model.faults import Fault
from harness.model.route import Route
from harness.model.sse import framed
from harness.model.trial import Request, Sink, Trial
from harness.records import ModelCall, Reply, Spend
from harness.streams import stream

if TYPE_CHECKING:
    from harness.model.gateway import Gateway

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
# so many tries in vain, and it is asked whether the request itself is why
_ODD = 6
# so many refusals, and no answer yet, raise the same question about all that is asked
_REBUFFS = 3

# how every refusal of our own budget begins, in the journal too
OVER_BUDGET = "strop: "


@dataclass
class Paid:
    """One call that is not in the journal, from its first try to its last. A refusal of a `vital` one stops the run,
    and is no reply: it is asked again when the run goes on."""

    gateway: Gateway
    route: Route
    request: Request
    account: Account
    sink: Sink
    vital: bool = False
    error: str = "cancelled"
    _sent: float = 0.0
    _began: float = 0.0
    _waits: bool = False
    _doubt: Doubt = field(init=False)

    def __post_init__(self) -> None:
        self._doubt = Doubt(self.account, self.request.dialect)

    @property
    def call(self) -> ModelCall:
        """The call as it stands in the journal."""
        return self.account.call

    async def run(self) -> None:
        """Answer it; then tell who watches, however it ended."""
        began = time.time_ns()
        try:
            await self._run()
        finally:
            self._waited()
            if self.gateway.watch is not None:
                self.gateway.watch(self._seen(began))

    async def play(self, cassette: Cassette) -> None:
        """Answer it from a cassette, at what it took when it was recorded; what is not there stops the run."""
        call, caller = self.call, self.account.caller
        if self.gateway.fault is not None:
            await self._refuse(503, "not_recorded", self.gateway.fault.message)
            return
        worst = self.account.worst(self.request)
        try:
            await self.account.hold(worst)
        except BudgetError as error:
            await self._over_budget(error)
            return
        taped = cassette.take(caller, call.digest)
        spent = Spend() if taped is None else taped.spent
        self.gateway.allowance.settle(caller, worst, spent)
        if taped is None:
            absent = CassetteError(
                cassette.path, ticket=call.ticket, role=call.role, model=call.model, digest=call.digest
            )
            self.gateway.stop(absent)
            await self._refuse(503, "not_recorded", absent.message)
            return
        call = replace(call, spent=spent, reply=taped.reply)
        await self.gateway.journal.begin_call(replace(call, reply=None), self.request.body)
        await self.gateway.journal.finish_call(call)
        self.account.call = call
        await give(self.sink, taped.reply)

    def _seen(self, began_ns: int) -> Seen:
        call, route = self.call, self.route
        return Seen(
            self.account.caller,
            route.model,
            route.policy.base_url,
            call.dialect,
            self.request.asked.most_out,
            began_ns,
            call.spent,
            self.account.cached_in,
            self.error,
        )

    async def _run(self) -> None:
        route, gateway = self.route, self.gateway
        began = self._began = time.monotonic()
        tries = 0
        while True:
            if gateway.fault is not None:
                await self._refuse(503, "upstream_down", gateway.fault.message)
                return
            if route.breaker.resting and not await self._rested(began):
                return
            tries += 1
            async with route.slots.one(self.call.ticket):
                fault = await self._try()
            if fault is None:
                return
            pause = self._pause(fault, tries)
            late = time.monotonic() + pause > began + route.policy.patience_s
            if late or (fault.odd and tries % _ODD == 0):
                if await self._doubt.answers(self._sent if late else began, fault):
                    await self._alone(fault)
                    return
                if time.monotonic() + pause > self._patient_until(began):
                    await self._give_up(fault.said)
                    return
            self._wait(fault.said)
            await anyio.sleep(pause)

    async def outlast(self) -> None:
        """Its caller has gone without an answer: wait in its stead until the upstream answers, or the run must stop."""
        tries = 0
        try:
            while self.gateway.fault is None:
                try:
                    fault = await self._doubt.ask()
                except BudgetError:
                    return  # the next call tells the budget's end
                if fault is None or not fault.passing:
                    return
                tries += 1
                pause = self._pause(fault, tries)
                if time.monotonic() + pause > self._patient_until(self._began):
                    self._stop(f"{fault.said}, for {self.route.policy.patience_s:g} s")
                    return
                self._wait(fault.said)
                await anyio.sleep(pause)
        finally:
            self._waited()

    def _wait(self, reason: str = "") -> None:
        route, caller = self.route, self.account.caller
        route.waiters += not self._waits
        self._waits = True
        known = self.gateway.waiting.get(route.name, Wait("it does not answer", time.monotonic(), 0.0))
        self.gateway.waiting[route.name] = Wait(reason or known.reason, known.since, route.policy.patience_s)
        if caller.role == PROPOSER:
            self.gateway.unanswered.setdefault((caller.ticket, caller.role), self)

    def _waited(self) -> None:
        if self._waits:
            self._waits = False
            self.route.waiters -= 1
            if not self.route.waiters:
                self.gateway.waiting.pop(self.route.name, None)

    def _answered(self) -> None:
        self.gateway.waiting.pop(self.route.name, None)
        self.gateway.unanswered.pop((self.call.ticket, self.call.role), None)

    async def _rested(self, began: float) -> bool:
        """Wait while the upstream rests; False when it stayed down for so long that the run was stopped."""
        breaker = self.route.breaker
        while breaker.resting and self.gateway.fault is None:
            self._wait()
            left = self._patient_until(began) - time.monotonic()
            if left <= 0 and breaker.down:
                await self._give_up("it stayed down")
                return False
            if await breaker.turn(max(left, 1.0)):
                try:
                    fault = await self._doubt.ask()
                except BudgetError:
                    return True  # the call itself tells the budget's end
                if fault is not None:
                    self._wait(fault.said)
        return True

    def _patient_until(self, began: float) -> float:
        """Patience counts from the last request that was answered, whoever's: until then nothing was down."""
        return max(began, self.route.good_at) + self.route.policy.patience_s

    async def _try(self) -> Fault | None:
        """One try; None when the caller has its answer, good or bad, and the fault when it may pass."""
        trial = Trial(self.route.upstream, self.route.policy, self.request, self.sink)
        self._sent = time.monotonic()
        try:
            await self.account.spend(trial, partial(self._end, trial))
        except BudgetError as error:
            await self._over_budget(error)
        except Fault as fault:
            self.error = str(fault.status) if fault.reply is not None else "upstream"
            return await self._failed(fault, trial)
        else:
            self.error = ""
        return None

    async def _end(self, trial: Trial, reply: Reply) -> None:
        self.route.answered(self._sent, self.request.dialect)
        self.route.worked = True
        self.gateway.answered.add((self.call.role, self.route.name))
        self.route.breaker.succeeded()
        self._answered()
        if not trial.started:
            await self.sink.start(reply.status, reply.media)
        await self.sink.chunk(trial.tail, last=True)

    async def _failed(self, fault: Fault, trial: Trial) -> Fault | None:
        astray = fault.astray and not self.route.worked
        passing = fault.passing and not astray
        who = self.call.ticket, self.call.role
        if passing and self.route.doubts(who):
            self.route.suspects.add(who)
            self.route.breaker.failed()
        if trial.started:
            # what the client has cannot be taken back: say so in the stream, and end it
            said = self.request.dialect.error(502, "stream_cut", fault.reason)
            await self.sink.chunk(framed(said, "error"), last=True)
            return None
        if passing:
            return fault
        if (fault.final or astray) and not self.vital and not await self._doubt.answers(self._sent, fault):
            self._stop(fault.said)
            await give(self.sink, self._refusal(fault))
        else:
            await self._alone(fault)
        return None

    async def _alone(self, fault: Fault) -> None:
        """This call fails and no other does, unless it is vital or no call ever fared better."""
        reply = self._refusal(fault)
        self._answered()
        if self.vital:
            self._stop(fault.said)
        elif await self._hopeless(fault):
            self._stop(f"{fault.said} (and no call was answered yet)")
        else:
            await self.account.keep(reply)
        await give(self.sink, reply)

    async def _hopeless(self, fault: Fault) -> bool:
        """Whether nothing was answered yet, to several tickets one after the other, or not even a plain request."""
        route = self.route
        if route.worked:
            return False
        route.rebuffs.append(self.call.ticket)
        if len(set(route.rebuffs)) >= max(_REBUFFS, self.gateway.width + 2):
            return True
        return len(route.rebuffs) % _REBUFFS == 0 and not await self._doubt.answers(self._sent, fault)

    def _refusal(self, fault: Fault) -> Reply:
        return fault.reply or refused(self.request.dialect, fault.status, "upstream_error", fault.reason)

    async def _over_budget(self, error: BudgetError) -> None:
        self.error = "budget"
        if self.gateway.keeps.ends(self.account.caller, error):
            # without its traceback, whose frames hold the request
            self.gateway.refusals[self.account.caller] = error.with_traceback(None)
        reply = refused(self.request.dialect, 429, "insufficient_quota", OVER_BUDGET + error.message)
        call = self.account.call = replace(self.call, held=Spend(), reply=reply)
        if call.role.partition("/")[0] != TASK:  # a rollout asks anew when it is resumed, and could be refused for ever
            await self.gateway.journal.begin_call(call, b"")  # it is never sent, and may be large
            await self.gateway.journal.finish_call(call)
        await give(self.sink, reply)

    async def _give_up(self, reason: str) -> None:
        self._stop(f"{reason}, for {self.route.policy.patience_s:g} s")
        await self._refuse(503, "upstream_down", reason)

    async def _refuse(self, status: int, kind: str, message: str) -> None:
        await give(self.sink, refused(self.request.dialect, status, kind, message))

    def _stop(self, reason: str) -> None:
        mend = (
            f"check base_url, model and api_key_env of models.{self.route.name}; "
            f"`strop doctor --model {self.route.name}` tries it with one call; "
            "then `strop resume`, or a new run if the policy has to change"
        )
        self.gateway.stop(ModelError(self.route.name, reason=reason, mend=mend))

    def _pause(self, fault: Fault, tries: int) -> float:
        """Seconds before the next try: what the upstream asked for, else doubling, with jitter of a quarter."""
        draw = stream(self.gateway.seed, "retry", self.call.digest, tries).uniform(0.75, 1.25)
        doubled = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1))
        return float(draw * doubled) if fault.wait_s is None else fault.wait_s + 0.1 * float(draw)


async def give(sink: Sink, reply: Reply) -> None:
    """A whole reply at once."""
    await sink.start(reply.status, reply.media)
    await sink.chunk(reply.body, last=True)
