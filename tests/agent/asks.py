"""Asks made by hand, and a run without boxes: what the search agent is tested in."""

from __future__ import annotations

import asyncio

from harness.agent.base import Ask
from harness.records import Attempt, Variant, Verdict
from harness.streams import stream
from harness.tree import File, Tree


def tree_of(**files):
    return Tree(
        (f"{name}.py", File(text if isinstance(text, bytes) else text.encode())) for name, text in files.items()
    )


def ask_of(tree, history=(), ticket=1, seed=0, parent="v0", score=1.0, is_editable=lambda path: True, **more):
    variant = Variant(parent, 0, tree.digest, (), Verdict.KEPT, score)
    return Ask(ticket, variant, tree, history, "loss", "min", is_editable, stream(seed, "agent", ticket), **more)


def propose(agent, ask):
    return asyncio.run(agent.propose(ask))


def attempt_of(proposal, ticket=1, verdict=Verdict.DISCARDED, score=2.0, parent_score=1.0, parent="v0"):
    return Attempt(ticket, parent, f"v{ticket}", verdict, score, parent_score, proposal.note, proposal.memo)


def climb(agent, tree, loss, steps, seed=0):
    """Keep or discard by a loss on trees; returns the losses of the incumbent, root first, and every tree tried."""
    history, incumbent, name, best = [], tree, "v0", loss(tree)
    curve, tried = [best], []
    for ticket in range(1, steps + 1):
        proposal = propose(agent, ask_of(incumbent, history, ticket, seed, name, best))
        if proposal is None:
            break
        child = incumbent.changed(proposal.changes)
        tried.append(child)
        found = loss(child)
        verdict = Verdict.KEPT if found < best else Verdict.DISCARDED
        history.append(attempt_of(proposal, ticket, verdict, found, best, name))
        if verdict is Verdict.KEPT:
            incumbent, name, best = child, f"v{ticket}", found
        curve.append(best)
    return curve, tried
