"""When a run ends before its last step. Each rule reads only committed state, so that it holds on resume too."""

from __future__ import annotations

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
    policy, mark = session.policy, session.standing.marks[after]
    if ticket > policy.budget.steps:
        return Stop("steps", f"all {policy.budget.steps} steps are done")
    if worn_out(session, after):
        return Stop("holdout", f"the holdout was surprised {mark.surprises} times and is worn out")
    idle_since = after - mark.kept_at
    if policy.stop.plateau and idle_since >= policy.stop.plateau:
        return Stop("plateau", f"{idle_since} tickets without a keep")
    if mark.idle >= max(2, session.width):
        return Stop("exhausted", "the agent has nothing left to try")
    if (session.hold.folder / STOP_FILE).exists():
        return Stop("stop file", "a stop file lies in the run folder")
    return None
