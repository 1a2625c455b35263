"""The loop: select a parent, propose, judge, evaluate, decide, record. Tickets run concurrently and commit in order.

Ticket k sees the archive as it stood after ticket k - W (W workers), so a run with the same seed and workers makes
the same decisions however its tasks interleave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from harness.archive.base import Commit
from harness.errors import BudgetError
from harness.events import RunStopped, TicketDecided, TicketStarted
from harness.failpoint import failpoint
from harness.policy.budget import Budget
from harness.records import Decision, Json, Usage, Verdict
from harness.research.decide import Deliberation
from harness.research.drawn import Drawn
from harness.research.optimize.agent import OptimizerAgent, tries_of
from harness.research.optimize.opening import bind_optimizer
from harness.research.parents import Parents
from harness.research.placing import Placement
from harness.research.propose import propose
from harness.research.roles import live_roles
from harness.research.screening import screened, ticket_worst_case
from harness.research.session import Session
from harness.research.share import Share
from harness.research.standing import attempt_of, variant_of
from harness.research.stop import Stop, stop_rule
from harness.research.turnstile import Turnstile
from harness.research.vault import vault_rollouts, vault_s

CLOSING_S = 0.5


@dataclass
class Engine:
    """One session's search. `wall_used` is the wall time of earlier sessions in seconds, `started` this one's start.

    `share` is what it leaves of the model budget, where there is one.
    """

    session: Session
    wall_used: float
    started: float
    share: Share | None = None
    draining: bool = False
    budget: Budget = field(init=False)
    _parents: Parents = field(init=False)
    _turn: Turnstile = field(init=False)
    _wall: anyio.CancelScope = field(init=False, default_factory=anyio.CancelScope)

    def __post_init__(self) -> None:
        limits = self.session.policy.budget
        self.budget = Budget({"rollouts": limits.rollouts, "steps": limits.steps, "wall_s": limits.wall_s})
        self.budget.used["rollouts"] = self.session.standing.marks[-1].rollouts
        self.budget.used["steps"] = self.session.standing.done
        self._turn = Turnstile(self.session.standing.done)
        bind_optimizer(self.session, self.budget)

    async def search(self) -> Stop:
        """Run tickets until a rule stops it; the reason is returned. Raises InfraError, StorageError."""
        self._parents = await Parents.of(self.session)
        if vault_rollouts(self.session) and not self.session.rollouts.took:
            await self.session.rollouts.recall()
        stop = out_of_time = Stop("wall", "the wall time left is needed to open the vault")
        await self._keep_back()
        try:
            with self._wall as wall:
                async with anyio.create_task_group() as tickets:
                    stop = await self._issue(tickets)
        except BaseExceptionGroup as errors:
            stop, wall = _spent(errors), anyio.CancelScope()
        if wall.cancelled_caught:
            stop = out_of_time
        self.session.emit(RunStopped(stop.reason, stop.detail))
        return stop

    def wall_s(self) -> float:
        """Seconds over all sessions so far."""
        return self.wall_used + self.session.hold.clock.monotonic() - self.started

    def wall_left(self) -> float:
        """Seconds left for work; a little of the budget is kept back to write the end down."""
        return max(0.0, self.session.policy.budget.wall_s - CLOSING_S - self.wall_s())

    async def _keep_back(self) -> None:
        """End the search while root and best can still be run on the vault."""
        if self.share is not None:
            self.share.measure()
            await self.share.note()
        self._wall.deadline = anyio.current_time() + max(0.0, self.wall_left() - vault_s(self.session))

    def usage(self) -> dict[str, Usage]:
        """Every budget line now."""
        self.budget.used["wall_s"] = self.wall_s()
        models = self.session.models
        return {**self.budget.usage(), **(models.gateway.usage() if models is not None else {})}

    async def _issue(self, tickets: TaskGroup) -> Stop:
        """Start tickets in order. Every rule reads a moment fixed by the ticket's number, never by timing."""
        workers = self.session.width
        ticket = self.session.standing.done
        while True:
            ticket += 1
            seen = max(0, ticket - workers)
            await self._turn.reached(seen)
            stop = self._may_not_start(ticket, seen)
            if stop is not None and stop.reason == "rollouts":
                await self._turn.reached(ticket - 1)
                stop = self._may_not_start(ticket, ticket - 1)
            if stop is not None:
                return stop
            self.budget.reserve("rollouts", ticket_worst_case(self.session))
            if ticket <= len(self.session.seeds):  # it may have to wait for the seed that it descends from
                await self._turn.reached(self.session.seeds[ticket - 1].parent)
            tickets.start_soon(self._ticket, ticket, self._parents.draw(ticket, seen))

    def _may_not_start(self, ticket: int, seen: int) -> Stop | None:
        if self.draining:
            return Stop("interrupted", "stopped by request; resume goes on from here", final=False)
        stop = stop_rule(self.session, ticket, seen)
        if stop is not None:
            return stop
        if self.share is not None and (error := self.share.spent()) is not None:
            return Stop("models", error.message)
        open_tickets = (ticket - seen) * ticket_worst_case(self.session)
        needed = self.session.standing.marks[seen].rollouts + open_tickets + vault_rollouts(self.session)
        if needed > self.session.policy.budget.rollouts:
            return Stop("rollouts", "the rollouts left do not cover one more ticket and the vault")
        return None

    async def _ticket(self, ticket: int, drawn: Drawn) -> None:
        session = self.session
        seen = max(0, ticket - session.width)
        session.emit(TicketStarted(ticket, drawn.parent))
        try:
            proposal = await propose(session, ticket, drawn, seen)
        except BudgetError:
            failpoint("refused")
            await self._turn.reached(ticket - 1)  # what was paid for before is decided first
            raise
        deliberation = await screened(session, proposal, drawn)
        await self._turn.reached(ticket - 1)
        if isinstance(session.agent, OptimizerAgent):
            deliberation.cited = await tries_of(session.archive, ticket)
            deliberation.tries = len(deliberation.cited)
        decision = await deliberation.decide()
        with anyio.CancelScope(shield=True):
            await self._commit(deliberation, decision)
        self._turn.advance()

    async def _commit(self, made: Deliberation, decision: Decision) -> None:
        session = self.session
        body = ticket_body(made, decision)
        failpoint("decided")
        if decision.variant is not None and made.proposal.tree is not None:
            await session.store.keep(f"variants/{decision.variant}", made.proposal.tree)
        entry = await session.archive.commit(
            Commit(
                decision.ticket,
                body,
                {"at": session.hold.clock.now(), "wall_s": round(self.wall_s(), 3)},
                variant_of(body),
                attempt_of(body, session.standing.variants[made.proposal.parent].score),
            )
        )
        failpoint("committed")
        await session.store.anchor(entry.hash, entry.seal, entry.seq)
        failpoint("anchored")
        session.standing.apply_ticket(body)
        await self._keep_back()
        self.budget.settle("rollouts", ticket_worst_case(session), len(made.cited) - made.tries)
        if made.tries:
            self.budget.used["rollouts"] = float(session.standing.marks[-1].rollouts)
        self.budget.used["steps"] = session.standing.done
        self._tell(decision, body)

    def _tell(self, decision: Decision, body: Mapping[str, Json]) -> None:
        standing = self.session.standing
        score, proposal = body["score"], body["proposal"]
        assert isinstance(proposal, dict)
        self.session.emit(
            TicketDecided(
                decision=decision,
                score=score if isinstance(score, float) else None,
                note=str(proposal["note"]),
                incumbent=standing.incumbent.id,
                incumbent_score=standing.reference[standing.incumbent.id],
                counts=dict(standing.counts),
                budget=self.usage(),
                surprises=standing.marks[-1].surprises,
                interval=standing.intervals.get(decision.variant or ""),
                incumbent_interval=standing.intervals.get(standing.incumbent.id),
                roles=self._roles(),
            )
        )

    def _roles(self) -> dict[str, Json]:
        agent, models = self.session.agent, self.session.models
        if not isinstance(agent, OptimizerAgent):
            return {}
        return live_roles(self.session.roles, models.gateway if models is not None else None, agent.heard)


def _spent(errors: BaseExceptionGroup[BaseException]) -> Stop:
    """The end of a search under whose rollouts the model budget ran out. Raises what else there is."""
    budget, rest = errors.split(BudgetError)
    if rest is not None or budget is None:
        raise errors
    while not isinstance(first := budget.exceptions[0], BudgetError):
        budget = first
    return Stop("models", first.message)


def ticket_body(made: Deliberation, decision: Decision) -> dict[str, Json]:
    """The ledger's account of one ticket; see `archive.base.LedgerEntry` for the chain it enters."""
    proposal = made.proposal
    # an in-flight twin may or may not have been screened before it was found out: its score is never recorded
    ran = made.screen is not None and decision.verdict is not Verdict.DUPLICATE
    score = made.screen[1].score if ran and made.screen is not None else None
    variant: dict[str, Json] | None = None
    if decision.variant is not None:
        variant = {
            "id": decision.variant,
            "tree": proposal.tree,
            "parents": [*made.parents] if isinstance(made, Placement) else [proposal.parent],
            "verdict": decision.verdict.value,
            "score": score,
        }
    kept = decision.verdict is Verdict.KEPT
    added: dict[str, Json] = {"archive": made.account(decision)} if isinstance(made, Placement) else {}
    return {
        "ticket": decision.ticket,
        "parent": proposal.parent,
        "proposal": {
            "tree": proposal.tree,
            "status": proposal.status,
            "note": proposal.note,
            "memo": dict(proposal.memo),
            "violations": list(proposal.violations),
        },
        "rollouts": made.cited,
        "score": score,
        "reference": made.reference,
        "decision": {
            "verdict": decision.verdict.value,
            "reason": decision.reason,
            "evidence": dict(decision.evidence),
        },
        "variant": variant,
        "incumbent": decision.variant if kept else made.champion or made.session.standing.incumbent.id,
        **added,
    }
