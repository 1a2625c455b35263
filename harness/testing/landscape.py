"""A simulated landscape with a stepping stone. SIMULATION: the scores are made up, nothing is run, no agent is real.

A variant is its features in `agent.txt`, a line each, far enough apart for a merge. Two of them cost a
little each and are worth a lot together, so a search that only ever keeps the best cannot cross the dip.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harness.agent.base import Ask, Proposal
from harness.records import Json, Outcome, Split, Status
from harness.tree import Tree

FILE = "agent.txt"
FEATURES = ("editor", "viewer", "retries", "plan", "tests", "notes")
BROKEN = "broken"
BASE = 0.20
ALONE = {"editor": 0.08, "viewer": -0.03, "retries": 0.05, "plan": -0.03, "tests": 0.04, "notes": -0.01}
TOGETHER = {("viewer", "plan"): 0.50, ("viewer", "notes"): 0.05}
P_BREAK = 0.15


def score_of(features: frozenset[str]) -> float:
    """The made-up score, in [0, 1]."""
    single = sum(worth for name, worth in ALONE.items() if name in features)
    pairs = sum(worth for pair, worth in TOGETHER.items() if features.issuperset(pair))
    return round(min(1.0, max(0.0, BASE + single + pairs)), 10)


def features_of(tree: Tree) -> frozenset[str]:
    """The features that a variant lists."""
    return frozenset(tree[FILE].data.decode().split()) & {*FEATURES, BROKEN}


def written(features: Collection[str]) -> bytes:
    """The file that lists these features and no others."""
    lines = [name if name in features else f"no-{name}" for name in FEATURES]
    return "\n\n".join([*lines, *([BROKEN] if BROKEN in features else [])]).encode() + b"\n"


class Landscape:
    """The world: `eval.world = "harness.testing.landscape:Landscape"`."""

    def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        features = features_of(tree)
        if BROKEN in features:
            return Outcome(Status.AGENT_ERROR, detail="simulated: it cannot edit code any more")
        return Outcome(Status.OK, score_of(features))


class Tinkerer:
    """The agent: switches one feature on or off, and breaks the child now and then.

    Every child is a variant of its own, even one with features of an earlier one: a file names its ticket. The files
    of two children never meet, so a merge has the features that either of them switched.
    """

    name = "tinkerer"

    def __init__(self, config: Mapping[str, Json] | None = None) -> None:
        chance = (config or {}).get("p_break", P_BREAK)
        self._p_break = float(chance) if isinstance(chance, int | float) else P_BREAK

    async def propose(self, ask: Ask) -> Proposal | None:
        toggled = FEATURES[int(ask.rng.integers(len(FEATURES)))]
        features = set(features_of(ask.tree)) ^ {toggled}
        if ask.rng.random() < self._p_break:
            features.add(BROKEN)
        changes = {FILE: written(features), f"made-by/ticket-{ask.ticket}": b""}
        return Proposal(changes=changes, note=f"toggle {toggled}")
