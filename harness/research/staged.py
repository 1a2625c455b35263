"""Archive mode's decision where variants are run task by task: functioning, posterior, title, hypothesis, promotion."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from harness.evaluation.functioning import PREFIX
from harness.records import Decision, Json, Outcome, RolloutKey, Split, Status, Verdict
from harness.research.baseline import root_values
from harness.research.contest import Rival, contest, promoted_rival
from harness.research.decide import BY_STATUS
from harness.research.evidence.posterior import Share
from harness.research.placing import Placement, accepts, everywhere, leaving
from harness.research.population import Member
from harness.research.rollouts import cite
from harness.research.session import Session
from harness.research.staging import Climb, Stages, posterior, shown
from harness.research.standing import ROOT
from harness.untrusted import line

HYPOTHESIS = "hypothesis"
TITLE = "title"
_SAID = {
    Status.TIMEOUT: "ran out of time",
    Status.AGENT_ERROR: "crashed",
    Status.INFRA_ERROR: "could not be run",
}


@dataclass
class StagedPlacement(Placement):
    """`Placement` over climbs: the child's, and that of `whom` was promoted beside it, its parent as a rule."""

    climb: Climb | None = None
    promoted: Climb | None = None
    whom: str = ""

    async def decide(self) -> Decision:
        """Only a functioning child is archived; only what was run to the end may take the title."""
        again = await self._promote()
        unfit = self._unfit()
        rivals = [] if unfit is not None or self.climb is None else [Rival(self._name, self.climb, self)]
        title = await contest(self.session, [*rivals, *([again] if again is not None else [])])
        if again is not None and again.name in title.led:
            self._tell(again, taken=title.winner == again.name)
        if unfit is not None or self.climb is None:
            return unfit or self._decision(Verdict.NO_PROPOSAL, "nothing was run")
        return self._place(self.climb, title.winner)

    def _unfit(self) -> Decision | None:
        """Why the child can be neither parent nor best; None when it functions."""
        refusal = self._without_running()
        if refusal is not None or self.climb is None:
            return refusal
        self._cite_all(self.climb)
        if self.climb.broken is not None:
            name, outcome = self.climb.broken
            verdict = BY_STATUS[outcome.status]
            return self._decision(verdict, line(f"does not function: {name}: {outcome.detail}", 300))
        if not self.climb.values:
            return self._decision(Verdict.INFRA, "no task could be run")
        ended = [outcome for key, outcome in self.climb.runs if not key.example.startswith(PREFIX)]
        if not any(outcome.status is Status.OK for outcome in ended):
            late = all(outcome.status in (Status.TIMEOUT, Status.INFRA_ERROR) for outcome in ended)
            reason = f"does not function: {_failed(ended)}"
            return self._decision(Verdict.TIMED_OUT if late else Verdict.CRASHED, line(reason, 300))
        self.evidence["stages"] = told(self.session, self.climb)
        return None

    def _place(self, climb: Climb, winner: str) -> Decision:
        session = self.session
        score = shown(session, climb.share)
        self.screen = RolloutKey(str(self.proposal.tree), Split.VISIBLE), Outcome(Status.OK, score)
        member = staged_member(session, self._name, self.proposal.ticket, self._line(), climb)
        kept = winner == self._name
        root = session.standing.members.get(ROOT)  # gone at most from a capped archive, which accepts everybody
        if not kept and not accepts(session, member, root.score if root is not None else None):
            return self._decision(Verdict.DISCARDED, "worse than the root by more than the margin")
        self.member, self.gone = member, leaving(session, member, keep=winner or None, again=self.again)
        if kept:
            return self._decision(Verdict.KEPT, "the best so far, and the gain holds")
        if self._name in self.gone:
            return self._decision(Verdict.DISCARDED, "the archive is full, and it is neither better nor different")
        return self._decision(Verdict.ARCHIVED, "it functions: archived as a possible parent")

    @property
    def _name(self) -> str:
        return f"v{self.proposal.ticket}"

    async def _promote(self) -> Rival | None:
        """The further stage counts unless another ticket has brought it in already."""
        before = self.session.standing.members.get(self.whom)
        if self.promoted is None or before is None or before.stage >= self.promoted.stage:
            return None
        self._cite_all(self.promoted)
        member = staged_member(self.session, before.id, before.ticket, before.parents, self.promoted)
        self.again = (replace(member, islands=before.islands),)
        return await promoted_rival(self, self.session.standing.variants[before.id], self.promoted)

    def _tell(self, again: Rival, *, taken: bool) -> None:
        """What came of one that was promoted beside the child and led, as evidence of its own."""
        self.cited += again.asked.cited
        self.evidence[TITLE] = {
            "variant": again.name,
            **told(self.session, again.climb),
            **again.asked.evidence,
            "taken": taken,
        }
        self.champion = again.name if taken else ""

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


def _failed(ended: Sequence[Outcome]) -> str:
    """How a child failed that came to an end in no task: how often in which way, and what the first said."""
    times = Counter(outcome.status for outcome in ended)
    ways = ", ".join(f"{times[status]} {said}" for status, said in _SAID.items() if times[status])
    first = next(outcome for outcome in ended if outcome.status is not Status.INFRA_ERROR)
    return f"no task of {len(ended)} came to an end: {ways}: {first.detail}"


def staged_member(session: Session, name: str, ticket: int, parents: tuple[str, ...], climb: Climb) -> Member:
    """A member from its climb: scored by the chosen statistic of its posterior, never by the raw share."""
    share, items = climb.share, ()
    if session.policy.select.rule == "pareto":
        items = tuple(climb.values.get(task, math.nan) for task in Stages(session).order())
    return Member(name, ticket, parents, statistic(session, share), share.wins, share.losses, items, climb.stage)


def staged_root(session: Session, runs: Sequence[Outcome]) -> Member:
    """The root as a member: its runs of the whole visible split, task by task, count as run to the end."""
    climb = Climb(root_values(session, runs), stage=len(Stages(session).plan()))
    return everywhere(session, staged_member(session, ROOT, 0, (), climb))


def statistic(session: Session, share: Share) -> float:
    """What selection reads: the posterior's mean, or an end of its 95 % interval."""
    chosen = session.policy.select.statistic
    if chosen == "mean":
        return share.mean
    return share.interval()[0 if chosen == "lower" else 1]


def told(session: Session, climb: Climb) -> dict[str, Json]:
    """A climb as evidence: solved of run, the posterior mean with its 95 % interval, and where it stopped."""
    return {**posterior(session, climb.share), "stage": climb.stage, "stopped": climb.why}


def checked(claim: Mapping[str, Any], climb: Climb) -> dict[str, Json]:
    """A child's hypothesis against what happened: `held` is None when none of its tasks were run."""
    named: Any = claim.get("solves")
    solves = [line(str(task), 120) for task in cast("list[Any]", named)] if isinstance(named, list) else []
    ran = [climb.values[task] for task in solves if task in climb.values]
    held = all(value >= 0.5 for value in ran) if ran else None
    return {"claim": line(str(claim.get("claim", "")), 300), "solves": [*solves[:20]], "held": held}
