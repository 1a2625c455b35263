"""Who is changed next: the incumbent, or a draw from the archive as it stood when the ticket was issued."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.policy.schema import SelectPolicy
from harness.records import RolloutKey, Split
from harness.research.placing import root_member
from harness.research.population import Change, Population
from harness.research.screening import by_task
from harness.research.seeds import sown_parent
from harness.research.select import BestOnly, Dgm, Greedy, Hgm, HyperAgents, Pareto, Rule, Uniform
from harness.research.session import Session
from harness.research.staged import staged_root
from harness.research.standing import ROOT
from harness.streams import stream


@dataclass
class Parents:
    """Draws parents in ticket order. Each draw reads the archive as of the ticket `seen`, whatever came since."""

    session: Session
    rule: Rule
    population: Population
    _taken: int = field(default=0)

    @classmethod
    async def of(cls, session: Session) -> Parents:
        """For a run whose root is measured."""
        parents = cls(session, make_rule(session.policy.select), Population())
        if session.policy.archive.mode == "incumbent":
            return parents
        if session.policy.archive.control == "random_parent":
            parents.rule = Uniform()
        root = session.standing.variants[ROOT]
        tree = await session.store.read(root.tree)
        outcome = await session.rollouts.run(RolloutKey(root.tree, Split.VISIBLE, 0, 0, "root"), tree)
        member = staged_root(session, outcome) if by_task(session) else root_member(session, outcome)
        parents.population.announce(Change(0, member))
        if not any(ROOT in change.gone for change in session.standing.changes):
            session.standing.members[ROOT] = member
        return parents

    def draw(self, ticket: int, seen: int) -> tuple[str, int]:
        """The parent of `ticket`, and how many stages it had run by then."""
        standing = self.session.standing
        grown = self.session.policy.archive.mode != "incumbent"
        if ticket <= len(self.session.seeds):
            return sown_parent(self.session.seeds, ticket, standing, archived=grown), 0
        if not grown:
            return standing.marks[seen].incumbent, 0
        for change in standing.changes[self._taken :]:
            self.population.announce(change)
        self._taken = len(standing.changes)
        now = self.population.until(seen)
        name = now.ids[self.rule.draw(now, stream(self.session.seed, "select", ticket))]
        return name, now.members[name].stage


def make_rule(policy: SelectPolicy) -> Rule:
    """The rule that a policy names."""
    rules: dict[str, Rule] = {
        "dgm": Dgm(policy.lam, policy.alpha0, policy.exclude_solved),
        "greedy": Greedy(),
        "uniform": Uniform(),
        "best_only": BestOnly(),
        "pareto": Pareto(),
        "hgm": Hgm(),
        "hyperagents": HyperAgents(policy.lam),
    }
    return rules[policy.rule]
