"""The decision on one ticket, made in ticket order: gate on visible, then one bit from the holdout."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from harness.archive.base import StoredProposal
from harness.records import Decision, Json, Outcome, RolloutKey, Split, Status, Variant, Verdict
from harness.research.propose import FAILED, NOTHING, REFUSED
from harness.research.rollouts import cite, same_items
from harness.research.session import Session
from harness.tree import Tree
from harness.untrusted import line

NO_GAIN = "no gain that holds"
_BY_STATUS = {
    Status.AGENT_ERROR: Verdict.CRASHED,
    Status.TIMEOUT: Verdict.TIMED_OUT,
    Status.INFRA_ERROR: Verdict.INFRA,
}


@dataclass
class Deliberation:
    """One ticket on its way to a decision: what was run for it, and what came of it.

    The first `tries` of `cited` were run to make the proposal, not to judge it.
    """

    session: Session
    proposal: StoredProposal
    tree: Tree | None
    screen: tuple[RolloutKey, Outcome] | None
    cited: list[Json] = field(default_factory=list[Json])
    evidence: dict[str, Json] = field(default_factory=dict[str, Json])
    reference: float | None = None
    tries: int = 0

    async def decide(self) -> Decision:
        """Everything a ticket can become. Only a candidate that passes gate and holdout is kept."""
        refusal = self._without_running()
        if refusal is not None:
            return refusal
        assert self.screen is not None
        key, outcome = self.screen
        self._cite(key, outcome)
        if outcome.status is not Status.OK:
            return self._decision(_BY_STATUS[outcome.status], line(outcome.detail, 300))
        return await self._judge(outcome)

    async def _judge(self, outcome: Outcome) -> Decision:
        assert outcome.score is not None
        session = self.session
        incumbent = session.standing.incumbent
        screened = session.gate.screen(outcome.score, session.standing.reference[incumbent.id])
        self.evidence["screen"] = dict(screened.evidence)
        self.reference = outcome.score
        if not screened.passed:
            return self._decision(Verdict.DISCARDED, NO_GAIN)
        if not session.standing.deterministic and not await self._confirm(incumbent):
            return self._decision(Verdict.DISCARDED, NO_GAIN)
        if not await self._holdout(incumbent):
            return self._decision(Verdict.DISCARDED, NO_GAIN)
        return self._decision(Verdict.KEPT, "better, and the gain holds")

    def _without_running(self) -> Decision | None:
        proposal = self.proposal
        if proposal.status == NOTHING:
            return self._decision(Verdict.NO_PROPOSAL, "the agent has nothing left to try")
        if proposal.status == FAILED:
            return self._decision(Verdict.NO_PROPOSAL, f"the agent failed: {proposal.note}")
        if proposal.status == REFUSED:
            return self._decision(Verdict.BLOCKED, "; ".join(proposal.violations[:3]))
        assert proposal.tree is not None
        earlier = self.session.standing.first_ticket.get(proposal.tree)
        if earlier is not None:
            return self._decision(Verdict.DUPLICATE, f"the same tree as v{earlier}")
        return None

    async def _confirm(self, incumbent: Variant) -> bool:
        pairs: list[tuple[Outcome, Outcome]] = []
        for repeat in range(self.session.policy.gate.pairs):
            pairs.append(await self._pair(incumbent, Split.VISIBLE, repeat, "confirm"))
        ruling = self.session.gate.confirm(pairs)
        self.evidence["confirm"] = dict(ruling.evidence)
        fresh = [mine.score for mine, _ in pairs if mine.score is not None]
        if fresh:
            self.reference = math.fsum(fresh) / len(fresh)
        return ruling.passed

    async def _holdout(self, incumbent: Variant) -> bool:
        session = self.session
        if not session.has(Split.HOLDOUT):
            return True
        if worn_out(session, session.standing.done):
            self.evidence["holdout"] = {"asked": False, "passed": False, "why": "worn out"}
            return False
        if session.standing.deterministic:
            mine = await self._run(incumbent=None, split=Split.HOLDOUT, repeat=0, purpose="holdout")
            score, known = mine.score, session.standing.holdout[incumbent.id]
            passed = score is not None and session.gate.gain(score, known) > 0
            self.evidence["holdout"] = {"asked": True, "passed": passed, "score": score}
            return passed
        pairs: list[tuple[Outcome, Outcome]] = []
        for repeat in range(session.policy.holdout.pairs):
            pairs.append(await self._pair(incumbent, Split.HOLDOUT, repeat, "holdout"))
        gains = [session.gate.gain(a.score, b.score) for a, b in pairs if a.score is not None and b.score is not None]
        ran = all(mine.status is Status.OK for mine, _ in pairs)
        passed = ran and (not gains or math.fsum(gains) > 0)
        self.evidence["holdout"] = {"asked": True, "passed": passed, "score": pairs[0][0].score}
        return passed

    async def _pair(self, incumbent: Variant, split: Split, repeat: int, purpose: str) -> tuple[Outcome, Outcome]:
        """Candidate and incumbent on one fresh seed; who goes first alternates."""
        if repeat % 2:
            theirs = await self._run(incumbent=incumbent, split=split, repeat=repeat, purpose=purpose)
            return await self._run(incumbent=None, split=split, repeat=repeat, purpose=purpose), theirs
        mine = await self._run(incumbent=None, split=split, repeat=repeat, purpose=purpose)
        return mine, await self._run(incumbent=incumbent, split=split, repeat=repeat, purpose=purpose)

    async def _run(self, *, incumbent: Variant | None, split: Split, repeat: int, purpose: str) -> Outcome:
        session = self.session
        if incumbent is None:
            assert self.proposal.tree is not None
            assert self.tree is not None
            tree_id, tree = self.proposal.tree, self.tree
        else:
            tree_id, tree = incumbent.tree, await session.store.read(incumbent.tree)
        kind = "confirm" if purpose == "confirm" else "holdout"
        key = RolloutKey(tree_id, split, repeat, self.proposal.ticket, kind)
        outcome = same_items(await session.rollouts.run(key, tree), session.standing.item_ids.get(split.value))
        self._cite(key, outcome)
        return outcome

    def _cite(self, key: RolloutKey, outcome: Outcome) -> None:
        self.cited.append(cite(key, self.session.rollouts.seed_of(key), outcome))

    def _decision(self, verdict: Verdict, reason: str) -> Decision:
        archived = self.proposal.tree is not None and verdict is not Verdict.DUPLICATE
        name = f"v{self.proposal.ticket}" if archived else None
        return Decision(self.proposal.ticket, verdict, name, reason, self.evidence)


def worn_out(session: Session, after: int) -> bool:
    """Whether, after that ticket, the holdout had been surprised as often as the policy allows."""
    surprises = session.standing.marks[after].surprises
    return session.has(Split.HOLDOUT) and surprises >= session.policy.holdout.surprises


def worst_case(session: Session) -> int:
    """The most rollouts one ticket can take."""
    policy = session.policy
    if session.standing.deterministic:
        return 1 + session.has(Split.HOLDOUT)
    return 1 + 2 * policy.gate.pairs + 2 * policy.holdout.pairs * session.has(Split.HOLDOUT)
