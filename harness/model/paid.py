"""One call that the journal does not answer, from its first try to its last: reserved, written down, sent, settled."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from harness.errors import BudgetError, CassetteError, ModelError
from harness.model.base import Caller, Seen, refused
from harness.model.cassette import Cassette
from harness.model.faults import Fault
from harness.model.route import Route
from harness.model.sse import framed
from harness.model.tokens import bound
from harness.model.trial import Request, Sink, Trial
from harness.records import ModelCall, Reply, Spend
from harness.streams import stream

if TYPE_CHECKING:
    from harness.model.gateway import Gateway

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0


# how every refusal of our own budget begins, in the journal too
OVER_BUDGET = "strop: "


@dataclass
class Paid:
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

    async def play(self, cassette: Cassette) -> None:
        """Answer it from a cassette, at what it took when it was recorded; what is not there stops the run."""
        call, caller = self.call, self._caller
        if self.gateway.fault is not None:
            await self._refuse(503, "not_recorded", self.gateway.fault.message)
            return
        worst = self._worst()
        try:
            await self._hold(worst)
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
        self.call = replace(call, spent=spent, reply=taped.reply)
        await self.gateway.journal.begin_call(replace(self.call, reply=None), self.request.body)
        await self.gateway.journal.finish_call(self.call)
        await give(self.sink, taped.reply)

    def _seen(self, began_ns: int) -> Seen:
        call, route = self.call, self.route
        return Seen(
            self._caller,
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
            if self.route.breaker.resting:
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
            await self._hold(worst)
        except BudgetError as error:
            self.route.breaker.abandoned()
            await self._over_budget(error)
            return None
        except anyio.get_cancelled_exc_class():
            self.route.breaker.abandoned()
            raise
        trial = Trial(self.route.upstream, self.route.policy, self.request, self.sink)
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
        await self.sink.chunk(trial.tail, last=True)

    async def _failed(self, fault: Fault, worst: Spend, trial: Trial) -> Fault | None:
        kept = fault.reply if not fault.passing and not fault.final and not trial.started else None
        await self._settle(worst, trial, kept)
        if fault.passing:
            self.route.breaker.failed(fault.wait_s)
        else:
            self.route.breaker.abandoned()
        if trial.started:
            # what the client has cannot be taken back: say so in the stream, and end it
            said = self.request.dialect.error(502, "stream_cut", fault.reason)
            await self.sink.chunk(framed(said, "error"), last=True)
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
        counted, estimated = await trial.counted(worst.tokens_in)
        self.cached_in += counted.cached_in
        price = self.route.price
        ins, outs = counted.tokens_in or 0, counted.tokens_out or 0
        cut = estimated and not trial.complete
        spent = Spend(1, ins, outs, price.most(ins, outs) if cut else price.of(counted), estimated)
        self.gateway.allowance.settle(self._caller, worst, spent)
        self.call = replace(self.call, held=Spend(), spent=self.call.spent + spent, reply=reply)
        await self.gateway.journal.finish_call(self.call)

    async def _over_budget(self, error: BudgetError) -> None:
        self.error = "budget"
        if self.gateway.keeps.ends(self._caller, error):
            self.gateway.refusals[self._caller] = error
        reply = refused(self.request.dialect, 429, "insufficient_quota", OVER_BUDGET + error.message)
        self.call = replace(self.call, held=Spend(), reply=reply)
        await self.gateway.journal.begin_call(self.call, b"")  # it is never sent, and may be large
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
            f"`strop doctor --model {self.route.name}` tries it with one call; "
            "then `strop resume`, or a new run if the policy has to change"
        )
        self.gateway.stop(ModelError(self.route.name, reason=reason, mend=mend))

    @property
    def _caller(self) -> Caller:
        return Caller(self.call.ticket, self.call.role, self.call.variant)

    async def _hold(self, worst: Spend) -> None:
        await self.gateway.allowance.hold(worst, lambda: self.gateway.keeps.of(self._caller))

    def _worst(self) -> Spend:
        ins, outs = bound(self.request.body) + self.request.asked.more_in, self.request.asked.most_out
        return Spend(1, ins, outs, self.route.price.most(ins, outs))

    def _pause(self, fault: Fault, tries: int) -> float:
        """Seconds before the next try: what the upstream asked for, else doubling, with jitter of a quarter."""
        draw = stream(self.gateway.seed, "retry", self.call.digest, tries).uniform(0.75, 1.25)
        doubled = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1))
        return float(draw * doubled) if fault.wait_s is None else fault.wait_s + 0.1 * float(draw)


async def give(sink: Sink, reply: Reply) -> None:
    """A whole reply at once."""
    await sink.start(reply.status, reply.media)
    await sink.chunk(reply.body, last=True)


def _excerpt(reply: Reply | None) -> str:
    from harness.untrusted import line  # noqa: PLC0415 - only faults need it

    return "" if reply is None else line(reply.body, 200)
