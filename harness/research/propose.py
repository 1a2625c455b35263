"""From a parent to an admitted child: the agent proposes, the door judges, the store keeps it."""

from __future__ import annotations

from harness.agent.base import Ask, Proposal
from harness.archive.base import StoredProposal
from harness.errors import AgentError
from harness.failpoint import failpoint
from harness.records import Json
from harness.repo.door import Refusal, admit, apply_changes, judge
from harness.research.session import Session
from harness.streams import stream
from harness.tree import Tree
from harness.untrusted import line

PROPOSED, NOTHING, REFUSED, FAILED = "proposed", "nothing", "refused", "failed"


async def propose(session: Session, ticket: int, parent_id: str, seen: int) -> StoredProposal:
    """Ticket's stored proposal; made now if no earlier session stored one. `seen` attempts are shown."""
    stored = await session.archive.proposal(ticket)
    if stored is not None:
        return stored
    standing, subject = session.standing, session.subject
    parent = standing.variants[parent_id]
    tree = await session.store.read(parent.tree)
    ask = Ask(
        ticket=ticket,
        parent=parent,
        tree=tree,
        history=standing.attempts[:seen],
        metric=subject.file.eval.metric,
        direction=subject.file.eval.direction,
        is_editable=subject.editable,
        rng=stream(session.seed, "agent", ticket),
    )
    try:
        proposal = await session.agent.propose(ask)
    except AgentError as error:
        made = _stored(ticket, parent_id, None, FAILED, note=error.message)
    else:
        made = await judged(session, ticket, parent_id, tree, proposal)
    if session.models is not None:
        session.models.gateway.check()  # an upstream that is down is no fault of this ticket's
    failpoint("proposed")
    await session.archive.store_proposal(made)
    failpoint("proposal-stored")
    return made


async def judged(
    session: Session, ticket: int, parent_id: str, tree: Tree, proposal: Proposal | None
) -> StoredProposal:
    """What the door makes of a proposal: a stored tree, or why not. Not recorded yet."""
    if proposal is None:
        return _stored(ticket, parent_id, None, NOTHING)
    entries = proposal.tree if proposal.tree is not None else apply_changes(tree, proposal.changes)
    child = admit(entries)
    if isinstance(child, Refusal):
        return _stored(
            ticket,
            parent_id,
            None,
            REFUSED,
            proposal=proposal,
            violations=tuple(str(found) for found in child.violations),
        )
    violations = judge(tree, child, session.subject.editable)
    if violations:
        found = tuple(str(violation) for violation in violations)
        return _stored(ticket, parent_id, None, REFUSED, proposal=proposal, violations=found)
    tree_id = await session.store.write(child)
    return _stored(ticket, parent_id, tree_id, PROPOSED, proposal=proposal)


def _stored(
    ticket: int,
    parent: str,
    tree: str | None,
    status: str,
    *,
    proposal: Proposal | None = None,
    violations: tuple[str, ...] = (),
    note: str = "",
) -> StoredProposal:
    memo: dict[str, Json] = dict(proposal.memo) if proposal else {}
    text = line(proposal.note if proposal else note, 300)
    return StoredProposal(ticket, parent, tree, text, memo, violations[:50], status)
