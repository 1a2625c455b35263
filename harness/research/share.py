"""What of the model budget a run leaves: to the vault, and for an optimizer to the decision on its nominees.

Where rollouts call models, a search that may spend everything would leave a winner that nobody can measure. What is
kept is worked out from what the rollouts of root and best took, again after every ticket.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from harness.errors import BudgetError
from harness.model.allowance import NOTHING, Allowance, most
from harness.model.base import TASK, Caller
from harness.model.gateway import Gateway
from harness.model.pricing import NANO
from harness.records import Json, Spend, Split, Variant
from harness.research.decide import worst_case
from harness.research.optimize.agent import OptimizerAgent
from harness.research.session import Session
from harness.research.standing import ROOT
from harness.research.vault import larger, vault_rollouts

MARGIN = 1.5
KINDS = ("requests", "tokens_in", "tokens_out", "nano_usd")
_NOTE = "models/largest"


@dataclass
class Share:
    """What each caller of a run has to leave, as `gateway.keeps`.

    The vault may have everything. Other rollouts and proposers leave `vault`; an optimizer's own tries and its model
    leave `nominees` too. `largest` is the most that one call of the root's or the best's rollouts was held at.
    """

    session: Session
    gateway: Gateway
    vault: Spend = NOTHING
    nominees: Spend = NOTHING
    largest: Spend = NOTHING
    _noted: Spend = field(default=NOTHING)

    @classmethod
    async def of_run(cls, session: Session, gateway: Gateway) -> Share:
        """The share of a run that begins or goes on: until the root is measured it is the policy's fraction."""
        noted = (await session.archive.meta()).get(_NOTE)
        largest = _spend(cast("list[int]", noted)) if isinstance(noted, list) else NOTHING
        share = cls(session, gateway, largest=largest, _noted=largest)
        share.measure()
        gateway.keeps = share
        return share

    def of(self, caller: Caller) -> Spend:
        """See `Keeps`."""
        if _purpose(caller) == Split.VAULT.value:
            return NOTHING
        return self.vault + self.nominees if self._tries(caller) else self.vault

    def ends(self, caller: Caller, error: BudgetError) -> bool:
        """See `Keeps`. A rollout that asks for far more than root or best ever did while they could go on is refused,
        and ends nothing: no candidate may end a run with one huge request."""
        if _kind(caller) != TASK or _purpose(caller) in {"", "root", "vault"}:
            return True
        kind, scale = ("nano_usd", NANO) if error.kind == "usd" else (error.kind, 1)
        usual = getattr(self.largest, kind) / scale
        return error.asked <= 2 * usual or error.limit - error.kept - error.used < usual

    def spent(self) -> BudgetError | None:
        """Why no further ticket can be had, if so. An optimizer sees to its own end; then its nominees are decided."""
        return next((error for caller, error in self.gateway.refusals.items() if not self._tries(caller)), None)

    def measure(self) -> None:
        """Work the share out again, from where the run stands now."""
        session, floor = self.session, self._floor()
        if not vault_rollouts(session):
            return
        if not session.standing.marks:
            self.vault = floor
            return
        root, best = session.standing.variants[ROOT], session.standing.incumbent
        of_root = self._rollout(root)
        of_best = self._rollout(best) or of_root
        self.vault = self.nominees = NOTHING
        if of_root is None or of_best is None or of_root + of_best == NOTHING:
            return  # rollouts call no models
        repeats = vault_rollouts(session) // 2
        both = _times(of_root + of_best, MARGIN * repeats)
        # one call in flight is held at its worst case, and one that a crash cuts off counts at it
        self.vault = most(floor, both + self.largest + self.largest)
        if isinstance(session.agent, OptimizerAgent):
            decided = session.agent.settings.finalists * worst_case(session)
            self.nominees = self._at_most_half(_times(most(of_root, of_best), decided) + self.largest)

    async def note(self) -> None:
        """Make what cannot be read from the journal durable."""
        if self.largest != self._noted:
            self._noted = self.largest
            amounts: list[Json] = [getattr(self.largest, kind) for kind in KINDS]
            await self.session.archive.set_meta(_NOTE, amounts)

    def _rollout(self, variant: Variant) -> Spend | None:
        """The most that a whole rollout of `variant` took, as it would be on the vault; None when there was none."""
        found: Spend | None = None
        for (_, name), taken in self.gateway.allowance.by_maker.items():
            tree, *rest = name.split("/")
            if tree == variant.tree[:12] and len(rest) == 3:  # purpose, split, repeat: a key without an example
                self.largest = most(self.largest, taken.largest)
                found = most(found or NOTHING, _times(taken.spent, larger(self.session, Split(rest[1]))))
        return found

    def _floor(self) -> Spend:
        share, limits = self.session.policy.budget.vault_share, _limits(self.gateway.allowance)
        return _spend([int(share * (limit or 0)) for limit in limits])

    def _at_most_half(self, wanted: Spend) -> Spend:
        """`wanted`, but never more than half of what root and vault leave: the optimizer must have something."""
        makers = self.gateway.allowance.by_maker.items()
        of_root = sum((taken.spent for (_, name), taken in makers if "/root/" in name), NOTHING)
        amounts: list[int] = []
        for kind, limit in zip(KINDS, _limits(self.gateway.allowance), strict=True):
            asked = getattr(wanted, kind)
            left = asked if limit is None else (limit - getattr(of_root, kind) - getattr(self.vault, kind)) // 2
            amounts.append(max(0, min(asked, left)))
        return _spend(amounts)

    def _tries(self, caller: Caller) -> bool:
        """Whether this is the optimizer's own work, and not the decision on what it nominates."""
        if not isinstance(self.session.agent, OptimizerAgent):
            return False
        return _kind(caller) != TASK or caller.variant.count("/") != 3


def _kind(caller: Caller) -> str:
    return caller.role.partition("/")[0]


def _purpose(caller: Caller) -> str:
    """What a rollout is for; "" for who is none."""
    parts = caller.variant.split("/")
    return parts[1] if _kind(caller) == TASK and len(parts) > 1 else ""


def _limits(allowance: Allowance) -> tuple[int | None, ...]:
    return allowance.requests, allowance.tokens_in, allowance.tokens_out, allowance.nano_usd


def _times(spend: Spend, factor: float) -> Spend:
    return _spend([math.ceil(getattr(spend, kind) * factor) for kind in KINDS])


def _spend(amounts: Sequence[int]) -> Spend:
    requests, tokens_in, tokens_out, nano_usd = amounts
    return Spend(requests, tokens_in, tokens_out, nano_usd)
