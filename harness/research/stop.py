"""When a run ends before its last step. Each rule reads only committed state, so that it holds on resume too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.research.decide import worn_out
from harness.research.session import Session

STOP_FILE = "stop"


@dataclass(frozen=True, slots=True)
class Stop:
    """Why no further ticket is started. `final` runs open the vault; others can be resumed."""

    reason: str
    detail: str = ""
    final: bool = True


def stop_rule(session: Session, ticket: int, after: int) -> Stop | None:
    """The rule that keeps `ticket` from starting, read from the run as it stood after ticket `after`."""
    return next(_rules(session, ticket, after), None)


def _rules(session: Session, ticket: int, after: int) -> Iterator[Stop]:
    policy, mark = session.policy, session.standing.marks[after]
    idle_since = after - mark.kept_at
    spends = not session.standing.deterministic or policy.gate.items == "require"
    if ticket > policy.budget.steps:
        yield Stop("steps", f"all {policy.budget.steps} steps are done")
    if worn_out(session, after):
        yield Stop("holdout", f"the holdout was surprised {mark.surprises} times and is worn out")
    if policy.stop.divergence and mark.refused >= policy.stop.divergence:
        yield Stop("divergence", f"{mark.refused} gains in a row held on visible and not on what is hidden")
    if spends and policy.gate.spending == "even" and mark.comparisons >= policy.gate.candidates:
        yield Stop("alpha", f"all {policy.gate.candidates} comparisons that alpha was declared for are spent")
    if policy.stop.plateau and idle_since >= policy.stop.plateau:
        yield Stop("plateau", f"{idle_since} tickets without a keep")
    if mark.idle >= max(2, session.width):
        said = session.standing.attempts[after - 1].note
        yield Stop("exhausted", said or "the agent has nothing left to try")
    if mark.failed >= max(policy.stop.agent_failures, session.width):
        yield Stop("agent", f"the agent failed {mark.failed} times in a row; `strop log` says how")
    if (session.hold.folder / STOP_FILE).exists():
        yield Stop("stop file", "a stop file lies in the run folder")
