"""Archive mode's decision where variants are run task by task: functioning, posterior, title, hypothesis, promotion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from harness.evaluation.functioning import PREFIX
from harness.records import Decision, Json, Outcome, RolloutKey, Split, Status, Verdict
from harness.research.decide import BY_STATUS
from harness.research.evidence.posterior import Share
from harness.research.placing import Placement, accepts, everywhere, leaving
from harness.research.population import Member
from harness.research.rollouts import cite
from harness.research.session import Session
from harness.research.staging import Climb, Stages
from harness.research.standing import ROOT
from harness.untrusted import line

HYPOTHESIS = "hypothesis"


@dataclass
class StagedPlacement(Placement):
    """`Placement` over climbs: the child's, and that of `whom` was promoted beside it, its parent as a rule."""

    climb: Climb | None = None
    promoted: Climb | None = None
    whom: str = ""

    async def decide(self) -> Decision:
        """Only a functioning child is archived; only one that was run to the end may take the title."""
        self._promote()
        refusal = self._without_running()
        if refusal is not None or self.climb is None:
            return refusal or self._decision(Verdict.NO_PROPOSAL, "nothing was run")
        self._cite_all(self.climb)
        if self.climb.broken is not None:
            name, outcome = self.climb.broken
            verdict = BY_STATUS[outcome.status]
            return self._decision(verdict, line(f"does not function: {name}: {outcome.detail}", 300))
        if not self.climb.values:
            return self._decision(Verdict.INFRA, "no task could be run")
        ended = [outcome for key, outcome in self.climb.runs if not key.example.startswith(PREFIX)]
        if not any(outcome.status is Status.OK for outcome in ended):
            reason = f"does not function: no task of {len(ended)} ended by itself: {ended[0].detail}"
            return self._decision(Verdict.CRASHED, line(reason, 300))
        return await self._place(self.climb)

    async def _place(self, climb: Climb) -> Decision:
        session = self.session
        share = climb.share
        self.evidence["stages"] = told(climb)
        self.reference = share.mean
        self.screen = RolloutKey(str(self.proposal.tree), Split.VISIBLE), Outcome(Status.OK, share.mean)
        name = f"v{self.proposal.ticket}"
        member = staged_member(session, name, self.proposal.ticket, self._line(), climb)
        holder = session.standing.incumbent
        best = session.standing.members.get(holder.id)
        whole = climb.stage == len(Stages(session).plan())
        known = Share(best.wins, best.losses).mean if best is not None else 0.0
        better = best is None or share.mean > known
        self.evidence["screen"] = {"candidate": share.mean, "incumbent": known, "gain": share.mean - known}
        kept = whole and better and await self._holdout(holder, simpler=False)
        if not kept and not accepts(session, member):
            return self._decision(Verdict.DISCARDED, "worse than the root by more than the margin")
        self.member, self.gone = member, leaving(session, member, keep=name if kept else None)
        if kept:
            return self._decision(Verdict.KEPT, "the best so far, and the gain holds")
        if name in self.gone:
            return self._decision(Verdict.DISCARDED, "the archive is full, and it is neither better nor different")
        return self._decision(Verdict.ARCHIVED, "it functions: archived as a possible parent")

    def _promote(self) -> None:
        """The further stage counts unless another ticket has brought it in already."""
        before = self.session.standing.members.get(self.whom)
        if self.promoted is None or before is None or before.stage >= self.promoted.stage:
            return
        self._cite_all(self.promoted)
        member = staged_member(self.session, before.id, before.ticket, before.parents, self.promoted)
        self.again = (replace(member, islands=before.islands),)

    def _cite_all(self, climb: Climb) -> None:
        for key, outcome in climb.runs:
            if str(key) not in self.session.standing.cited:
                self.cited.append(cite(key, self.session.rollouts.seed_of(key), outcome))

    def account(self, decision: Decision) -> dict[str, Json]:
        """What the ledger's ticket body says under `archive`."""
        body = super().account(decision)
        claim = self.proposal.memo.get(HYPOTHESIS)
        # a twin in flight may or may not have been run before it was found out: nothing of that is recorded
        if isinstance(claim, dict) and self.climb is not None and decision.verdict is not Verdict.DUPLICATE:
            body[HYPOTHESIS] = checked(claim, self.climb)
        return body


def staged_member(session: Session, name: str, ticket: int, parents: tuple[str, ...], climb: Climb) -> Member:
    """A member from its climb: scored by the chosen statistic of its posterior, never by the raw share."""
    share, items = climb.share, ()
    if session.policy.select.rule == "pareto":
        items = tuple(climb.values.get(task, math.nan) for task in Stages(session).order())
    return Member(name, ticket, parents, statistic(session, share), share.wins, share.losses, items, climb.stage)


def staged_root(session: Session, outcome: Outcome) -> Member:
    """The root as a member: its first run of the whole visible split, task by task, counts as run to the end."""
    stages = Stages(session)
    values = {task: stages.value(Outcome(Status.OK, score)) or 0.0 for task, score in sorted(outcome.items.items())}
    return everywhere(session, staged_member(session, ROOT, 0, (), Climb(values, stage=len(stages.plan()))))


def statistic(session: Session, share: Share) -> float:
    """What selection reads: the posterior's mean, or an end of its 95 % interval."""
    chosen = session.policy.select.statistic
    if chosen == "mean":
        return share.mean
    return share.interval()[0 if chosen == "lower" else 1]


def told(climb: Climb) -> dict[str, Json]:
    """A climb as evidence: solved of run, the posterior mean with its 95 % interval, and where it stopped."""
    share = climb.share
    low, high = share.interval()
    return {
        "solved": share.wins,
        "run": len(climb.values),
        "mean": share.mean,
        "interval": [low, high],
        "stage": climb.stage,
        "stopped": climb.why,
    }


def checked(claim: Mapping[str, Any], climb: Climb) -> dict[str, Json]:
    """A child's hypothesis against what happened: `held` is None when none of its tasks were run."""
    named: Any = claim.get("solves")
    solves = [str(task) for task in cast("list[Any]", named)] if isinstance(named, list) else []
    ran = [climb.values[task] for task in solves if task in climb.values]
    held = all(value >= 0.5 for value in ran) if ran else None
    return {"claim": line(str(claim.get("claim", "")), 300), "solves": [*solves[:20]], "held": held}
