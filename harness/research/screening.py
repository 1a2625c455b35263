"""What a ticket runs before its turn to be decided: one run of the eval, or a climb through stages."""

from __future__ import annotations

from harness.archive.base import StoredProposal
from harness.records import Outcome, RolloutKey, Split, Verdict
from harness.research.decide import Deliberation, query_rollouts, worst_case
from harness.research.drawn import Drawn
from harness.research.novelty import fingerprint, likeness
from harness.research.placing import Placement, same_code
from harness.research.propose import PROPOSED
from harness.research.rollouts import same_items
from harness.research.session import Session
from harness.research.staged import StagedPlacement
from harness.research.staging import Climb, Stages, by_task
from harness.tree import Tree


async def screened(session: Session, proposal: StoredProposal, drawn: Drawn) -> Deliberation:
    """The ticket, run and ready to be decided."""
    tree = None
    if proposal.status == PROPOSED and proposal.tree not in session.standing.first_ticket:
        assert proposal.tree is not None
        tree = await session.store.read(proposal.tree)
    if session.policy.archive.mode == "incumbent":
        return Deliberation(session, proposal, tree, await _once(session, proposal, tree))
    mark, twin = await _novelty(session, proposal, tree)
    if not by_task(session):
        screen = None if twin else await _once(session, proposal, tree)
        return Placement(session, proposal, tree, screen, mark=mark, twin=twin, other=drawn.other)
    climb = None
    if tree is not None and proposal.tree is not None and not twin:
        climb = await Stages(session).climb(proposal.tree, tree)
    promoted = await _promoted(session, drawn) if drawn.promoted else None
    made = StagedPlacement(session, proposal, tree, None, mark=mark, twin=twin, other=drawn.other, climb=climb)
    made.promoted, made.whom = promoted, drawn.promoted
    return made


def ticket_worst_case(session: Session) -> int:
    """The most rollouts one ticket can take: task by task, and then of the holdout for each that may take the title."""
    if not by_task(session):
        return worst_case(session)
    return Stages(session).worst_case() + query_rollouts(session) * (2 if session.policy.stages.promote else 1)


async def _once(session: Session, proposal: StoredProposal, tree: Tree | None) -> tuple[RolloutKey, Outcome] | None:
    if tree is None or proposal.tree is None:
        return None
    key = RolloutKey(proposal.tree, Split.VISIBLE)
    outcome = await session.rollouts.run(key, tree)
    return key, same_items(outcome, session.standing.item_ids.get(Split.VISIBLE.value))


async def _promoted(session: Session, drawn: Drawn) -> Climb | None:
    """A variant taken through its next stage: it was drawn again, so it matters how good it is."""
    stages = Stages(session)
    if not session.policy.stages.promote or not 0 <= drawn.stage < len(stages.plan()):
        return None
    variant = session.standing.variants[drawn.promoted]
    return await stages.climb(variant.tree, await session.store.read(variant.tree), forced=drawn.stage + 1)


def _kin(session: Session, proposal: StoredProposal) -> list[str]:
    """The parent, and its children that function, as of when the ticket was issued."""
    seen = max(0, proposal.ticket - session.width)
    fit = (Verdict.KEPT, Verdict.ARCHIVED)
    children = [
        one.id
        for one in session.standing.variants.values()
        if proposal.parent in one.parents and one.verdict in fit and one.ticket <= seen
    ]
    return [proposal.parent, *children]


async def _novelty(session: Session, proposal: StoredProposal, tree: Tree | None) -> tuple[str, str]:
    """The child's fingerprint, and what speaks against it as something new."""
    if tree is None:
        return "", ""
    mark = fingerprint(tree)
    parent = await session.store.read(session.standing.variants[proposal.parent].tree)
    if mark == fingerprint(parent):
        return mark, f"the same code as {proposal.parent} but for comments and layout"
    wanted = session.policy.archive.novelty
    for name in _kin(session, proposal) if wanted < 1 else ():
        alike = likeness(await session.store.read(session.standing.variants[name].tree), tree)
        if alike >= wanted:
            return mark, f"too like {name}: {alike:.3f}"
    earlier = session.standing.fingerprints.get(mark)  # last: whether it is there yet may depend on timing
    return mark, "" if earlier is None else same_code(earlier)
