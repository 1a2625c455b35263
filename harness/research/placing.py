"""Archive mode's decision: every functioning child may become a parent, and only the best is asked of the holdout.

The gate and the holdout rule on the title of best variant exactly as they do with an incumbent; a child that does
not take the title is archived if the policy's acceptance lets it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.policy.schema import ArchivePolicy
from harness.records import Decision, Direction, Json, Outcome, Verdict
from harness.research.decide import Deliberation
from harness.research.population import Member
from harness.research.select import goodness
from harness.research.session import Session
from harness.research.standing import ROOT

_ROUNDING = 1e-9


@dataclass
class Placement(Deliberation):
    """A deliberation that also says what becomes of the archive of parents. `other` is the second parent of a merge."""

    mark: str = ""
    twin: str = ""
    other: str = ""
    member: Member | None = None
    again: tuple[Member, ...] = field(default=())
    gone: tuple[str, ...] = field(default=())

    async def decide(self) -> Decision:
        """As with an incumbent, but a functioning child that is not the best may still be archived."""
        decision = await super().decide()
        if decision.verdict not in (Verdict.KEPT, Verdict.DISCARDED) or decision.variant is None:
            return decision
        assert self.screen is not None
        member = member_from(self.session, decision.variant, self.proposal.ticket, self._line(), self.screen[1])
        if decision.verdict is Verdict.DISCARDED and not accepts(self.session, member):
            return decision
        self.member = member
        self.gone = leaving(self.session, member, keep=decision.variant if decision.verdict is Verdict.KEPT else None)
        if decision.verdict is Verdict.KEPT or member.id in self.gone:
            return decision
        return self._decision(Verdict.ARCHIVED, "it functions: archived as a possible parent")

    def _without_running(self) -> Decision | None:
        refusal = super()._without_running()
        if refusal is not None or not self.mark:
            return refusal
        earlier = self.session.standing.fingerprints.get(self.mark)
        twin = self.twin or (same_code(earlier) if earlier is not None else "")
        return self._decision(Verdict.DUPLICATE, twin) if twin else None

    @property
    def parents(self) -> list[str]:
        """One, or the two that were merged."""
        return [self.proposal.parent, *([self.other] if self.other else [])]

    def _line(self) -> tuple[str, ...]:
        return tuple(self.parents)

    def account(self, decision: Decision) -> dict[str, Json]:
        """What the ledger's ticket body says under `archive`."""
        body: dict[str, Json] = {"fingerprint": self.mark} if decision.variant is not None else {}
        entering = self.member is not None and self.member.id not in self.gone
        gone = self.gone if entering else ()
        member, again = migrated(self.session, decision.ticket, self.member if entering else None, self.again, gone)
        if member is not None:
            body["member"] = member.as_json()
            if gone:
                body["gone"] = [*gone]
        if again:
            body["again"] = [one.as_json() for one in again]
        return body


def same_code(ticket: int) -> str:
    """What speaks against a child whose fingerprint an earlier ticket's child has."""
    return f"the same code as v{ticket} but for comments and layout"


def island_of(policy: ArchivePolicy, ticket: int) -> int:
    """The island that a ticket works on: they take turns."""
    return (ticket - 1) % policy.islands


def migrated(
    session: Session, ticket: int, member: Member | None, again: tuple[Member, ...], gone: tuple[str, ...]
) -> tuple[Member | None, tuple[Member, ...]]:
    """The ticket's own member on its island; and, when it is time, the best of each island on the next one too."""
    policy = session.policy.archive
    if policy.islands == 1:
        return member, again
    if member is not None:
        member = replace(member, islands=(island_of(policy, ticket),))
    if ticket % policy.migrate_every:
        return member, again
    now = {**session.standing.members, **{one.id: one for one in again}}
    now |= {} if member is None else {member.id: member}
    moving: dict[str, set[int]] = {}
    for island in range(policy.islands):
        there = [one for name, one in now.items() if island in one.islands and name not in gone]
        best = max(there, key=lambda one: (one.score, -one.ticket), default=None)
        further = (island + 1) % policy.islands
        if best is not None and further not in best.islands:
            moving.setdefault(best.id, set()).add(further)
    for name, islands in moving.items():
        now[name] = replace(now[name], islands=tuple(sorted({*now[name].islands, *islands})))
    renewed = {one.id: None for one in again} | {name: None for name in moving if member is None or name != member.id}
    return None if member is None else now[member.id], tuple(now[name] for name in renewed)


def everywhere(session: Session, root: Member) -> Member:
    """The root, from which every island begins."""
    count = session.policy.archive.islands
    return root if count == 1 else replace(root, islands=tuple(range(count)))


def root_member(session: Session, outcome: Outcome) -> Member:
    """The root as the first member: its standing score, and its items as one run gave them."""
    root = session.standing.variants[ROOT]
    measured = member_from(session, ROOT, 0, (), outcome)
    assert root.score is not None
    known = Member(ROOT, 0, (), _good(session, root.score), measured.wins, measured.losses, measured.items)
    return everywhere(session, known)


def member_from(session: Session, name: str, ticket: int, parents: tuple[str, ...], outcome: Outcome) -> Member:
    """A member from one run of the whole visible split. Items, where there are any, are its evidence."""
    assert outcome.score is not None
    good = _good(session, outcome.score)
    items = tuple(_good(session, outcome.items[name]) for name in sorted(outcome.items))
    settings = session.subject.file.eval
    wins, losses = evidence(outcome, settings.direction, settings.range)
    table = items if session.policy.select.rule == "pareto" else ()
    return Member(name, ticket, parents, good, wins, losses, table)


def evidence(outcome: Outcome, direction: Direction, allowed: tuple[float, float] | None) -> tuple[float, float]:
    """One run as tasks solved and failed: by item where it has items, else its score as one task, solved in part."""
    scores = [outcome.items[name] for name in sorted(outcome.items)] or [outcome.score or 0.0]
    found = [min(1.0, max(0.0, goodness(one, direction, allowed))) for one in scores]
    wins = sum(found)
    return wins, len(found) - wins


def accepts(session: Session, member: Member, root: float | None = None) -> bool:
    """Whether a functioning child enters the archive at all. `root` is the root's score as members have theirs."""
    policy = session.policy.archive
    if policy.mode != "keep_better":
        return True
    if root is None:
        measured = session.standing.variants[ROOT].score
        assert measured is not None
        root = _good(session, measured)
    return member.score >= root - policy.margin - _ROUNDING


def leaving(session: Session, new: Member, *, keep: str | None, again: Sequence[Member] = ()) -> tuple[str, ...]:
    """Who makes room in a capped archive: the least score plus distance to the nearest member that is no worse.

    The best member never leaves, nor does the one in `keep` or the incumbent. `again` is known better than it was.
    """
    policy = session.policy.archive
    if policy.mode != "capped":
        return ()
    safe = {session.standing.incumbent.id if keep is None else keep}
    members: dict[str, Member] = {**session.standing.members, **{one.id: one for one in again}, new.id: new}
    gone: list[str] = []
    while len(members) > policy.size:
        worst = crowded(list(members.values()), safe)
        if worst is None:
            break
        gone.append(worst)
        del members[worst]
    return tuple(gone)


def crowded(members: Sequence[Member], safe: set[str]) -> str | None:
    """The member with the least score + distance to the nearest member that is no worse; of equals the latest."""
    ranked = sorted(members, key=lambda one: (-one.score, one.ticket))
    found: tuple[float, int, str] | None = None
    for place, one in enumerate(ranked[1:], start=1):
        if one.id in safe:
            continue
        near = min(_distance(one, other) for other in ranked[:place])
        worth = (one.score + near, -one.ticket, one.id)
        if found is None or worth < found:
            found = worth
    return None if found is None else found[2]


def _distance(one: Member, other: Member) -> float:
    if one.items and len(one.items) == len(other.items):
        return sum(abs(a - b) for a, b in zip(one.items, other.items, strict=True)) / len(one.items)
    return abs(one.score - other.score)


def _good(session: Session, score: float) -> float:
    settings = session.subject.file.eval
    return goodness(score, settings.direction, settings.range)
