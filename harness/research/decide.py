"""The decision on one ticket, made in ticket order: gate on visible, then one bit from the holdout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.archive.base import StoredProposal
from harness.evaluation.plausible import too_little_work
from harness.records import Decision, Json, Outcome, RolloutKey, Split, Status, Variant, Verdict
from harness.research.evidence.holdout import bit, capacity, part_now, part_score, remembered
from harness.research.evidence.paired import averages, item_test, mean_items, regressed
from harness.research.evidence.simplicity import diff_lines
from harness.research.propose import CONFLICT, FAILED, NOTHING, REFUSED
from harness.research.rollouts import cite, same_items
from harness.research.session import Session
from harness.research.standing import ROOT
from harness.streams import stream
from harness.tree import Tree
from harness.untrusted import line

NO_GAIN = "no gain that holds"
BY_STATUS = {
    Status.AGENT_ERROR: Verdict.CRASHED,
    Status.TIMEOUT: Verdict.TIMED_OUT,
    Status.INFRA_ERROR: Verdict.INFRA,
}


@dataclass
class Deliberation:
    """One ticket on its way to a decision: what was run for it, and what came of it.

    The first `tries` of `cited` were run to make the proposal, not to judge it. `surprised` counts the surprises that
    earlier queries of this same ticket brought; `champion` is another variant than the child that took the title.
    """

    session: Session
    proposal: StoredProposal
    tree: Tree | None
    screen: tuple[RolloutKey, Outcome] | None
    cited: list[Json] = field(default_factory=list[Json])
    evidence: dict[str, Json] = field(default_factory=dict[str, Json])
    reference: float | None = None
    tries: int = 0
    surprised: int = 0
    champion: str = ""

    async def decide(self) -> Decision:
        """Everything a ticket can become. Only a candidate that passes gate and holdout is kept."""
        refusal = self._without_running()
        if refusal is not None:
            return refusal
        assert self.screen is not None
        key, outcome = self.screen
        self._cite(key, outcome)
        if outcome.status is not Status.OK:
            return self._decision(BY_STATUS[outcome.status], line(outcome.detail, 300))
        return await self._judge(outcome)

    async def _judge(self, outcome: Outcome) -> Decision:
        assert outcome.score is not None
        session = self.session
        incumbent = session.standing.incumbent
        odd = await self._implausible(outcome)
        if odd:
            self.evidence["plausible"] = {"passed": False, "why": odd}
            return self._decision(Verdict.CRASHED, f"implausible: {odd}")
        known = session.standing.reference[incumbent.id]
        screened = session.gate.screen(outcome.score, known)
        self.evidence["screen"] = dict(screened.evidence)
        self.reference = outcome.score
        simpler = not screened.passed and await self._simpler(outcome.score, known, incumbent)
        if not screened.passed and not simpler:
            return self._decision(Verdict.DISCARDED, NO_GAIN)
        refusal = await self._repeated(outcome, incumbent, simpler=simpler)
        if refusal is not None:
            return self._decision(Verdict.DISCARDED, refusal)
        if not await self.ask_holdout(incumbent, simpler=simpler):
            return self._decision(Verdict.DISCARDED, NO_GAIN)
        return self._decision(Verdict.KEPT, "simpler, and not worse" if simpler else "better, and the gain holds")

    async def _implausible(self, outcome: Outcome) -> str | None:
        """What no honest run does, measured against the root's own."""
        session, settings = self.session, self.session.subject.file.eval
        table = settings.plausible
        beside = settings.mode in ("inline", "pytest")
        if not beside and (table.min_work == 0 or settings.mode != "split"):
            return None
        first = RolloutKey(session.standing.variants[ROOT].tree, Split.VISIBLE, 0, 0, "root")
        root = await session.rollouts.run(first, session.subject.root)  # stored when the root was measured
        if root.score is None:
            return None
        if too_little_work(table, outcome.cpu_s, root.cpu_s):
            return f"less than {table.min_work:g} of the processor time that the root took"
        assert outcome.score is not None
        if averages(root.score, root.items) and not averages(outcome.score, outcome.items):
            return "the score is not the mean of its items, as the root's is"
        return None

    async def _simpler(self, score: float, known: float, incumbent: Variant) -> bool:
        """Whether this one is no worse and nearer to the root, where the policy counts that."""
        session = self.session
        if not session.policy.gate.simplicity or not session.gate.not_worse(score, known):
            return False
        assert self.tree is not None
        root = session.subject.root
        mine, theirs = diff_lines(root, self.tree), diff_lines(root, await session.store.read(incumbent.tree))
        self.evidence["simplicity"] = {"candidate": mine, "incumbent": theirs, "margin": session.policy.gate.margin}
        return mine < theirs

    async def _repeated(self, outcome: Outcome, incumbent: Variant, *, simpler: bool) -> str | None:
        """Everything visible that a would-be keep must pass beyond its screening run; why not, in words for anybody."""
        session = self.session
        if session.standing.deterministic:
            if session.policy.gate.recheck and not await self._recheck(outcome):
                return "another run of it scored differently"
            theirs = await self._known(incumbent.tree, Split.VISIBLE)
            known: Mapping[str, float] = theirs.items if theirs is not None else {}
            pair = outcome.items, known
        else:
            pairs = await self._confirm(incumbent, simpler=simpler)
            if pairs is None:
                return NO_GAIN
            pair = mean_items([mine for mine, _ in pairs]), mean_items([theirs for _, theirs in pairs])
        worse = regressed(session.subject.file.eval.guard, *pair, session.gate.direction)
        if session.subject.file.eval.guard:
            self.evidence["guards"] = {"passed": not worse, "regressed": worse}
        if worse:
            return f"a guard got worse: {', '.join(worse)}"
        return None if self._items(*pair, simpler=simpler) else NO_GAIN

    def _items(self, mine: Mapping[str, float], theirs: Mapping[str, float], *, simpler: bool) -> bool:
        """The paired test over examples: evidence always, a condition where the policy says so."""
        session = self.session
        rng = stream(session.seed, "items", self.proposal.ticket)
        found = item_test(mine, theirs, session.gate.gain, rng)
        required = session.policy.gate.items == "require" and not simpler
        if found is not None:
            self.evidence["items"] = found
        if not required:
            return True
        alpha = session.gate.alpha(self._comparison)
        p = found["p"] if found is not None else 1.0
        passed = isinstance(p, float) and p <= alpha
        self.evidence["items"] = {**(found or {"why": "no items to pair"}), "alpha": alpha, "passed": passed}
        return passed

    @property
    def _comparison(self) -> int:
        return self.session.standing.marks[-1].comparisons + 1

    async def _recheck(self, outcome: Outcome) -> bool:
        """A second run must give the very same: a candidate may not bring luck into a metric that has none."""
        again = await self._run(incumbent=None, split=Split.VISIBLE, repeat=0, purpose="confirm")
        same = again.score == outcome.score and again.items == outcome.items
        self.evidence["recheck"] = {"passed": same, "score": again.score}
        return same

    async def _known(self, tree: str, split: Split) -> Outcome | None:
        """The first run of a tree on a split that is already paid for."""
        found = [
            (key, outcome)
            for key, _, outcome in await self.session.archive.rollouts()
            if key.tree == tree and key.split is split and not key.example and outcome is not None
        ]
        found.sort(key=lambda one: (one[0].ticket, one[0].repeat))
        return next((outcome for _, outcome in found if outcome.status is Status.OK), None)

    def _without_running(self) -> Decision | None:
        proposal = self.proposal
        if proposal.status == NOTHING:
            return self._decision(Verdict.NO_PROPOSAL, "the agent has nothing left to try")
        if proposal.status == FAILED:
            return self._decision(Verdict.NO_PROPOSAL, f"the agent failed: {proposal.note}")
        if proposal.status == CONFLICT:
            return self._decision(Verdict.NO_PROPOSAL, proposal.note)
        if proposal.status == REFUSED:
            return self._decision(Verdict.BLOCKED, "; ".join(proposal.violations[:3]))
        assert proposal.tree is not None
        earlier = self.session.standing.first_ticket.get(proposal.tree)
        if earlier is not None:
            return self._decision(Verdict.DUPLICATE, f"the same tree as v{earlier}")
        return None

    async def _confirm(self, incumbent: Variant, *, simpler: bool) -> list[tuple[Outcome, Outcome]] | None:
        pairs: list[tuple[Outcome, Outcome]] = []
        if self.session.gate.alpha(self._comparison) <= 0:
            self.evidence["confirm"] = {"alpha": 0.0, "comparison": self._comparison, "why": "alpha is spent"}
            return None
        for repeat in range(self.session.policy.gate.pairs):
            pairs.append(await self._pair(incumbent, Split.VISIBLE, repeat, "confirm"))
        ruling = self.session.gate.confirm(pairs, self._comparison, simpler=simpler)
        self.evidence["confirm"] = dict(ruling.evidence)
        fresh = [mine.score for mine, _ in pairs if mine.score is not None]
        if fresh:
            self.reference = math.fsum(fresh) / len(fresh)
        return pairs if ruling.passed else None

    async def ask_holdout(self, incumbent: Variant, *, simpler: bool = False) -> bool:
        """One query: whether the gain over `incumbent` holds on what is hidden."""
        session, policy = self.session, self.session.policy.holdout
        if not session.has(Split.HOLDOUT):
            return True
        surprises = session.standing.marks[-1].surprises + self.surprised
        if surprises >= capacity(policy):
            self.evidence["holdout"] = {"asked": False, "passed": False, "why": "worn out"}
            return False
        part = part_now(policy, surprises)
        pairs = await self._hidden(incumbent)
        gains = [g for g in (self._hidden_gain(mine, theirs, part) for mine, theirs in pairs) if g is not None]
        ran = all(mine.status is Status.OK for mine, _ in pairs)
        hidden = math.fsum(gains) / len(gains) if gains else None
        passed = ran and (hidden is None or self._bit(hidden, [mine for mine, _ in pairs], simpler=simpler))
        if session.standing.deterministic:
            passed = passed and hidden is not None
        score = remembered(policy, pairs[0][0].score)
        self.evidence["holdout"] = {"asked": True, "passed": passed, "score": score}
        if policy.method != "bit" or part is not None:
            self.evidence["holdout"] |= {"method": policy.method, "part": part}
        return passed

    async def _hidden(self, incumbent: Variant) -> list[tuple[Outcome, Outcome]]:
        """(candidate, incumbent) on what is hidden: fresh pairs, or one run beside the incumbent's own."""
        session = self.session
        if not session.standing.deterministic:
            pairs = session.policy.holdout.pairs
            repeats = range(pairs * self.surprised, pairs * (self.surprised + 1))
            return [await self._pair(incumbent, Split.HOLDOUT, repeat, "holdout") for repeat in repeats]
        mine = await self._run(incumbent=None, split=Split.HOLDOUT, repeat=0, purpose="holdout")
        theirs = Outcome(Status.OK, session.standing.holdout[incumbent.id])
        if session.policy.holdout.then == "rotate":
            theirs = await self._known(incumbent.tree, Split.HOLDOUT) or theirs
        return [(mine, theirs)]

    def _hidden_gain(self, mine: Outcome, theirs: Outcome, part: int | None) -> float | None:
        session = self.session
        if mine.score is None or theirs.score is None:
            return None
        if part is None:
            return session.gate.gain(mine.score, theirs.score)
        policy = session.policy.holdout
        own, other = (part_score(policy, session.seed, one.items, part) for one in (mine, theirs))
        return None if own is None or other is None else session.gate.gain(own, other)

    def _bit(self, hidden: float, ran: Sequence[Outcome], *, simpler: bool) -> bool:
        session = self.session
        if simpler:
            return hidden >= -session.policy.gate.margin
        seen = self.evidence.get("confirm") or self.evidence.get("screen", {})
        assert isinstance(seen, dict)
        visible = seen.get("mean_gain", seen.get("gain"))
        again = [self.surprised] if self.surprised else []
        rng = stream(session.seed, "holdout", self.proposal.ticket, *again)
        seen_gain = visible if isinstance(visible, float) else hidden
        return bit(session.policy.holdout, hidden, seen_gain, rng, self._gap(ran))

    def _gap(self, ran: Sequence[Outcome]) -> float | None:
        """How much further from the root the candidate is on visible than on the holdout."""
        standing, gain = self.session.standing, self.session.gate.gain
        scores = [one.score for one in ran if one.score is not None]
        if self.reference is None or not scores or ROOT not in standing.holdout:
            return None
        hidden = gain(math.fsum(scores) / len(scores), standing.holdout[ROOT])
        return gain(self.reference, standing.reference[ROOT]) - hidden

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
    return session.has(Split.HOLDOUT) and surprises >= capacity(session.policy.holdout)


def worst_case(session: Session) -> int:
    """The most rollouts one ticket can take that is judged by whole runs."""
    gate = session.policy.gate
    again = gate.recheck if session.standing.deterministic else 2 * gate.pairs
    return 1 + again + query_rollouts(session)


def query_rollouts(session: Session) -> int:
    """What one query of the holdout takes; 0 without one."""
    if not session.has(Split.HOLDOUT):
        return 0
    return 1 if session.standing.deterministic else 2 * session.policy.holdout.pairs
