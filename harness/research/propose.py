"""From a parent to an admitted child: the agent proposes, the door judges, the store keeps it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

import anyio

from harness.agent.base import Agent, Ask, Ends, Proposal, Trace
from harness.archive.base import StoredProposal
from harness.archive.ledger import canonical
from harness.errors import AgentError, StropError
from harness.evaluation.functioning import PREFIX
from harness.evaluation.tasks import unbound
from harness.failpoint import failpoint
from harness.records import Json, RolloutKey, Split, Status
from harness.repo.door import Refusal, admit, apply_changes, judge
from harness.research.baseline import REPEATS_WHEN_NOISY
from harness.research.drawn import Drawn
from harness.research.merging import Conflict, merge_trees
from harness.research.seeds import seed_proposal
from harness.research.session import Session
from harness.research.standing import ROOT
from harness.streams import stream
from harness.tree import Entry, Tree
from harness.untrusted import line

# so often is an agent asked again whose model was gone meanwhile
OUTAGES = 3
MAX_MEMO = 64 * 1024
PROPOSED, NOTHING, REFUSED, FAILED, CONFLICT = "proposed", "nothing", "refused", "failed", "conflict"


async def propose(session: Session, ticket: int, drawn: Drawn, seen: int) -> StoredProposal:
    """Ticket's stored proposal; made now if no earlier session stored one. `seen` attempts are shown."""
    stored = await session.archive.proposal(ticket)
    if stored is not None:
        return stored
    standing, subject, parent_id = session.standing, session.subject, drawn.parent
    parent = standing.variants[parent_id]
    tree = await session.store.read(parent.tree)
    if ticket <= len(session.seeds):
        proposal = await seed_proposal(session.store, session.seeds[ticket - 1])
        return await _kept(session, await judged(session, ticket, parent_id, tree, proposal))
    if drawn.other:
        return await _kept(session, await _merge(session, ticket, drawn, tree))
    traces = await traces_of(session, parent.tree, seen)
    outages = 0
    while True:
        ask = Ask(
            ticket=ticket,
            parent=parent,
            tree=tree,
            history=standing.attempts[:seen],
            metric=subject.file.eval.metric,
            direction=subject.file.eval.direction,
            is_editable=subject.editable,
            rng=stream(session.seed, "agent", ticket),
            traces=traces,
            in_flight=session.width,
        )
        made = await _asked(session, ask)
        # an upstream that is down, or a budget that is spent, is no fault of this ticket's
        models, idle = session.models, made.status in {FAILED, NOTHING}
        if models is None or not await models.gateway.regained(ticket, idle=idle) or outages == OUTAGES:
            return await _kept(session, made)
        outages += 1


async def _asked(session: Session, ask: Ask) -> StoredProposal:
    """What the agent answers and the door makes of it, or why there is nothing. Not recorded yet."""
    try:
        proposal = await ask_agent(session.agent, ask)
    except AgentError as error:
        return _stored(ask.ticket, ask.parent.id, None, FAILED, note=error.message)
    made = await judged(session, ask.ticket, ask.parent.id, ask.tree, proposal)
    if proposal is None and isinstance(session.agent, Ends):
        made = replace(made, note=line(session.agent.ended, 300))
    return made


async def _merge(session: Session, ticket: int, drawn: Drawn, tree: Tree) -> StoredProposal:
    """Both parents in one, through the door; without a guess where they do not go together."""
    variants, store = session.standing.variants, session.store
    base, other = await store.read(variants[drawn.base].tree), await store.read(variants[drawn.other].tree)
    made = merge_trees(base, tree, other)
    name = f"merge of {drawn.parent} and {drawn.other}"
    if isinstance(made, Conflict):
        told = line(f"{name}: both changed {', '.join(made.paths)}", 300)
        return _stored(ticket, drawn.parent, None, CONFLICT, note=told)
    memo: dict[str, Json] = {"merge": [drawn.parent, drawn.other], "base": drawn.base}
    proposal = Proposal(tree=tuple(made.entries()), note=name, memo=memo)
    return await judged(session, ticket, drawn.parent, tree, proposal)


async def _kept(session: Session, made: StoredProposal) -> StoredProposal:
    failpoint("proposed")
    await session.archive.store_proposal(made)
    failpoint("proposal-stored")
    return made


async def ask_agent(agent: Agent, ask: Ask) -> Proposal | None:
    """What the agent answers, checked. Whatever else an agent does is its own failure, never the run's.

    Raises AgentError; our own errors (a model that is down, a full disk) and our own cancellation pass through.
    """
    try:
        return checked(await agent.propose(ask))
    except StropError:
        raise
    except anyio.get_cancelled_exc_class() as error:
        if anyio.current_effective_deadline() == -math.inf:
            raise
        raise AgentError("it cancelled itself") from error
    except (Exception, SystemExit) as error:
        raise AgentError(f"{type(error).__name__}: {line(str(error), 200)}") from error


def checked(proposal: object) -> Proposal | None:
    """A proposal whose parts are what they should be. Raises AgentError that names the part."""
    if proposal is None:
        return None
    if not isinstance(proposal, Proposal):
        raise AgentError(f"it answered a {type(proposal).__name__}, not a Proposal")
    changes, tree, note = cast("tuple[object, object, object]", (proposal.changes, proposal.tree, proposal.note))
    if not isinstance(changes, Mapping) or any(
        not isinstance(path, str) or not isinstance(data, bytes | None)
        for path, data in cast("Mapping[object, object]", changes).items()
    ):
        raise AgentError("its changes are not a mapping of path to bytes or None")
    if tree is not None and not all(isinstance(entry, Entry) for entry in cast("Iterable[object]", tree)):
        raise AgentError("its tree holds something that is no Entry")
    if not isinstance(note, str):
        raise AgentError(f"its note is a {type(note).__name__}, not text")
    try:
        size = len(canonical(dict(proposal.memo)))
    except (TypeError, ValueError, RecursionError) as error:
        raise AgentError(f"its memo is not JSON: {line(str(error), 100)}") from error
    if size > MAX_MEMO:
        raise AgentError(f"its memo has {size} characters, more than {MAX_MEMO}")
    return proposal


async def traces_of(session: Session, tree_id: str, seen: int) -> list[Trace]:
    """How a variant did task by task, from what tickets up to `seen` cite: visible tasks only."""
    found: list[Trace] = []
    if tree_id == session.standing.variants[ROOT].tree and session.policy.archive.mode != "incumbent":
        found += await _traces_of_root(session, tree_id)
    for key in session.standing.keys_of(tree_id, seen):
        outcome = await session.archive.outcome(key)
        _, _, _, repeat, _, task = key.split("/", 5)
        if outcome is not None and not task.startswith(PREFIX):
            found.append(Trace(task, int(repeat), outcome.status, outcome.score, outcome.detail))
    return found


async def _traces_of_root(session: Session, tree_id: str) -> list[Trace]:
    """The root's runs of the whole visible split, task by task: it is run as often as it takes to know its noise."""
    found: list[Trace] = []
    for repeat in range(REPEATS_WHEN_NOISY):
        whole = await session.archive.outcome(str(RolloutKey(tree_id, Split.VISIBLE, repeat, 0, "root")))
        if whole is None:
            break
        told = unbound(whole.detail)
        for task, score in sorted(whole.items.items()):
            status, detail = told.get(task, (Status.OK, ""))
            found.append(Trace(task, repeat, status, score, detail))
    return found


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
