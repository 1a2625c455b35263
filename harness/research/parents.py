"""Who is changed next: the incumbent, or a draw from the archive as it stood when the ticket was issued."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from harness.policy.schema import ArchivePolicy, SelectPolicy
from harness.records import RolloutKey, Split
from harness.research.baseline import REPEATS_WHEN_NOISY
from harness.research.drawn import Drawn
from harness.research.placing import island_of, root_member
from harness.research.population import Change, Island, Population
from harness.research.seeds import sown_parent
from harness.research.select import BestOnly, Dgm, Greedy, Hgm, HyperAgents, Pareto, Rule, Uniform
from harness.research.session import Session
from harness.research.staged import staged_root
from harness.research.staging import Stages, by_task
from harness.research.standing import ROOT
from harness.streams import stream

_TRIES = 16


@dataclass
class Parents:
    """Draws parents in ticket order. Each draw reads the archive as of the ticket `seen`, whatever came since.

    Every island has a rule of its own, for a rule may remember what it has seen of its pool.
    """

    session: Session
    rules: list[Rule]
    population: Population
    _taken: int = field(default=0)

    @classmethod
    async def of(cls, session: Session) -> Parents:
        """For a run whose root is measured."""
        policy = session.policy
        random = policy.archive.control == "random_parent"
        rules = [Uniform() if random else make_rule(policy.select) for _ in range(policy.archive.islands)]
        parents = cls(session, rules, Population())
        if policy.archive.mode == "incumbent":
            return parents
        root = session.standing.variants[ROOT]
        tree = await session.store.read(root.tree)
        times = REPEATS_WHEN_NOISY if by_task(session) and not session.standing.deterministic else 1
        keys = [RolloutKey(root.tree, Split.VISIBLE, repeat, 0, "root") for repeat in range(times)]
        runs = await session.rollouts.run_all(keys, tree)
        member = staged_root(session, runs) if by_task(session) else root_member(session, runs[0])
        parents.population.announce(Change(0, member))
        if not any(ROOT in change.gone for change in session.standing.changes):
            session.standing.members[ROOT] = member
        return parents

    def draw(self, ticket: int, seen: int) -> Drawn:
        """The parent of `ticket`, as things stood after ticket `seen`."""
        standing = self.session.standing
        grown = self.session.policy.archive.mode != "incumbent"
        if ticket <= len(self.session.seeds):
            return Drawn(sown_parent(self.session.seeds, ticket, standing, archived=grown))
        if not grown:
            return Drawn(standing.marks[seen].incumbent)
        for change in standing.changes[self._taken :]:
            self.population.announce(change)
        self._taken = len(standing.changes)
        now = self.population.until(seen)
        name = self._one(ticket, stream(self.session.seed, "select", ticket))
        other, base = self._other(ticket, name)
        promoted = self._measured(ticket, ticket - 1 - seen) if self.session.policy.select.rule == "hgm" else name
        return Drawn(name, promoted, now.members[promoted].stage if promoted else 0, other, base)

    def _measured(self, ticket: int, pending: int) -> str:
        """HGM: whom to run on more tasks beside the new child, while there is too little evidence for so many variants.

        Thompson sampling on each one's own evidence, of those that have stages left; nobody once there is enough.
        """
        now, whole = self.population, len(Stages(self.session).plan()) if by_task(self.session) else 0
        evaluations = round(float(now.wins.sum() + now.losses.sum()))
        if Hgm.expands(evaluations, len(now.ids), pending):
            return ""
        places = [place for place, name in enumerate(now.ids) if now.members[name].stage < whole]
        if not places:
            return ""
        rng = stream(self.session.seed, "measure", ticket)
        return now.ids[places[Hgm().measured(Island(now, np.array(places, np.int64)), rng)]]

    def _one(self, ticket: int, rng: np.random.Generator) -> str:
        now = self.population
        if len(self.rules) == 1:
            return now.ids[self.rules[0].draw(now, rng)]
        island = island_of(self.session.policy.archive, ticket)
        pool = now.on(island)
        return now.ids[int(pool.places[self.rules[island].draw(pool, rng)])]

    def _other(self, ticket: int, name: str) -> tuple[str, str]:
        """Somebody to merge with and their nearest common ancestor, on tickets that merge; else nobody."""
        if not merges(self.session.policy.archive, ticket):
            return "", ""
        rng = stream(self.session.seed, "merge", ticket)
        for _ in range(_TRIES):
            other = self._one(ticket, rng)
            base = self.population.nearest(name, other)
            if base is not None:
                return other, base
        return "", ""


def merges(policy: ArchivePolicy, ticket: int) -> bool:
    """Whether a ticket merges: on every island one of `merge_every` turns, on each at another time.

    By the ticket alone it would be the same islands' turn every time where the two numbers share a factor.
    """
    turn = (ticket - 1) // policy.islands + 1
    return bool(policy.merge_every) and (turn + island_of(policy, ticket)) % policy.merge_every == 0


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
