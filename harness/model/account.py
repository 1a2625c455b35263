"""One call in the budget and on disk: each request that it takes is reserved and written down before it is sent, and
settled after.

The end of a reply goes on while the settlement is being written: the budget has it by then, and the next call is
written behind it. A crash in between leaves a call without a reply, which counts at its worst case.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from harness.errors import StropError
from harness.model.base import Caller
from harness.model.tokens import bound
from harness.model.trial import Request, Trial
from harness.records import ModelCall, Reply, Spend

if TYPE_CHECKING:
    from harness.model.gateway import Gateway
    from harness.model.route import Route

End = Callable[[Reply], Coroutine[None, None, None]]


@dataclass
class Account:
    """What one call takes, all its tries and whatever is asked on its behalf."""

    gateway: Gateway
    route: Route
    call: ModelCall
    body: bytes
    cached_in: int = 0

    @property
    def caller(self) -> Caller:
        """On whose account it goes."""
        return Caller(self.call.ticket, self.call.role, self.call.variant)

    async def hold(self, worst: Spend) -> None:
        """Reserve `worst`, and leave what the caller has to leave. Raises BudgetError."""
        await self.gateway.allowance.hold(worst, lambda: self.gateway.keeps.of(self.caller))

    async def spend(self, trial: Trial, end: End | None = None) -> Reply:
        """Run `trial`; `end` is called with its reply once that is counted. Raises BudgetError, Fault."""
        worst = self.worst(trial.request)
        await self.hold(worst)
        self.call = replace(self.call, held=worst)
        reply: Reply | None = None
        try:
            await self.gateway.journal.begin_call(self.call, self.body)
            reply = await trial.run()
            return reply
        finally:
            await self._settle(worst, trial, reply, end)

    async def keep(self, reply: Reply) -> None:
        """Write down what the call is answered in the end, where that is no reply of a try of it."""
        self.call = replace(self.call, held=Spend(), reply=reply)
        await self.gateway.journal.finish_call(self.call)

    def worst(self, request: Request) -> Spend:
        """The most that `request` can take."""
        ins, outs = bound(request.body) + request.asked.more_in, request.asked.most_out
        return Spend(1, ins, outs, self.route.price.most(ins, outs))

    async def _settle(self, worst: Spend, trial: Trial, reply: Reply | None, end: End | None) -> None:
        counted, estimated = await trial.counted(worst.tokens_in)
        self.cached_in += counted.cached_in
        price = self.route.price
        ins, outs = counted.tokens_in or 0, counted.tokens_out or 0
        cut = estimated and not trial.complete
        # what nobody ever got is no request, however often it is tried again
        spent = Spend(int(trial.reached), ins, outs, price.most(ins, outs) if cut else price.of(counted), estimated)
        self.gateway.allowance.settle(self.caller, worst, spent)
        self.call = replace(self.call, held=Spend(), spent=self.call.spent + spent, reply=reply)
        if end is None or reply is None:
            await self._written()
            return
        failed: StropError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(end, reply)
            try:
                await self._written()
            except StropError as error:
                # whoever has the end of the reply may be gone with it, and hears of no error
                self.gateway.stop(error)
                failed = error
        if failed is not None:
            raise failed

    async def _written(self) -> None:
        with anyio.CancelScope(shield=True):  # the caller may be gone, what it spent is not
            await self.gateway.journal.finish_call(self.call)
