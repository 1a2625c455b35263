"""Does an upstream answer anybody? Asked when it does not answer one call, with the plainest request there is.

A box chooses what it asks. That an upstream hangs, fails or says no over one request is no reason to stop the run for
everyone; that it does so over this one is. What is asked is a request of a few tokens, on the account of the call
that raised the doubt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from harness.errors import BudgetError
from harness.model.account import Account
from harness.model.base import Dialect
from harness.model.dialects import CHAT
from harness.model.faults import Fault
from harness.model.trial import Trial

FEW = 16
_UNWELCOME = frozenset({400, 413, 422})


@dataclass
class Doubt:
    """Doubts that one call raises about its upstream."""

    account: Account
    dialect: Dialect

    async def answers(self, since: float, fault: Fault) -> bool:
        """Whether the upstream answers others, so that `fault` of what was sent at `since` (monotonic) is that call's
        own. Where the budget has no room for asking, whether it ever did."""
        route, call = self.account.route, self.account.call
        who = call.ticket, call.role
        async with route.asking:
            if route.good_at > since or not route.doubts(who):
                return True
            if self.account.gateway.fault is not None or route.bad_at > since:
                return False
            route.suspects.add(who)
            try:
                found = await self.ask(route.policy.max_output_tokens if fault.money else FEW)
            except BudgetError:
                return route.worked
            # one that finds fault with the plainest request is there all the same, and has let us in
            return found is None or (found.status in _UNWELCOME and fault.status not in _UNWELCOME)

    async def ask(self, cap: int = FEW) -> Fault | None:
        """Ask: None when it answered, else how it failed; the breaker is told. Raises BudgetError."""
        route = self.account.route
        found: Fault | None = None
        told: bool | None = None
        try:
            for dialect in [route.home] if route.home else dict.fromkeys([self.dialect, CHAT]):
                path, body = dialect.plainest(route.model)
                request = route.request(dialect, path, "", dialect.read(path, body, cap=cap), {})
                sent = time.monotonic()
                try:
                    await self.account.spend(Trial(route.upstream, route.policy, request, _Nobody()))
                except Fault as fault:
                    found = found or fault
                    if fault.status in _UNWELCOME:
                        told, route.good_at = True, sent
                        route.cleared()
                        break
                    told, route.bad_at = False, sent
                    if not fault.reached:
                        break
                else:
                    told = True
                    route.cleared()
                    route.answered(sent, dialect)
                    return None
        finally:
            route.breaker.probed(told, found.wait_s if found else None)
        return found


class _Nobody:
    """Where the answers to doubts go."""

    async def start(self, status: int, media: str) -> None:
        pass

    async def chunk(self, data: bytes, *, last: bool = False) -> None:
        pass
