"""Who takes the title of best variant where variants are run task by task: the child, or one promoted beside it.

Both must have been run to the end and lead by their posterior mean; then each asks the holdout for its one bit. The
better one asks first, and once the title is taken the other has nothing to ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.records import Variant
from harness.research.decide import Deliberation
from harness.research.evidence.posterior import Share
from harness.research.session import Session
from harness.research.staging import Climb, Stages, shown


@dataclass(frozen=True, slots=True)
class Rival:
    """A variant that may take the title, and the deliberation that its query and its numbers enter."""

    name: str
    climb: Climb
    asked: Deliberation


@dataclass(frozen=True, slots=True)
class Title:
    """Whose the title is now, nobody's new where `winner` is empty, and who led and so was asked about."""

    winner: str = ""
    led: tuple[str, ...] = ()


async def promoted_rival(own: Deliberation, variant: Variant, climb: Climb) -> Rival:
    """A promoted variant, judged beside the child of `own` on its ticket, with evidence of its own."""
    proposal = replace(own.proposal, tree=variant.tree)
    asked = Deliberation(own.session, proposal, await own.session.store.read(variant.tree), None)
    return Rival(variant.id, climb, asked)


async def contest(session: Session, rivals: Sequence[Rival]) -> Title:
    """Hold the rivals against the best variant so far. Of equals the first given asks first."""
    holder = session.standing.incumbent
    whole = len(Stages(session).plan())
    best = session.standing.members[holder.id]
    known = shown(session, Share(best.wins, best.losses))
    least = session.policy.gate.min_effect
    title = Title()
    for rival in sorted(rivals, key=lambda one: -one.climb.share.mean):
        mean, asked = shown(session, rival.climb.share), rival.asked
        gain = session.gate.gain(mean, known)
        asked.reference = mean
        asked.evidence["screen"] = {"candidate": mean, "incumbent": known, "gain": gain}
        if least:
            asked.evidence["screen"]["needed"] = least
        if title.winner or rival.climb.stage < whole or gain <= 0 or gain < least * (1 - 1e-9):
            continue
        asked.surprised = len(title.led)
        title = replace(title, led=(*title.led, rival.name))
        if await asked.ask_holdout(holder):
            title, known = replace(title, winner=rival.name), mean
    return title
