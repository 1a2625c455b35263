"""Where an optimizer stands within a run: durable beside the ledger after every step, and told in the summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from harness.optimizer.admit import fingerprint
from harness.optimizer.base import State, Texts
from harness.records import Json


@dataclass(frozen=True, slots=True)
class Course:
    """Where an optimizer stands within a run, as it is made durable after every step.

    `here` rollouts were paid by this ticket's finished steps, `spent` by earlier tickets; `given` is the nominee this
    ticket proposes; `proposed` holds the fingerprints of earlier tickets' ones; `queue` is what is left at the end,
    and `reason` why it is the end. `heard` counts the replies of all finished steps, see `Heard`.
    """

    ticket: int = 0
    state: State | None = None
    proposed: tuple[str, ...] = ()
    queue: tuple[Texts, ...] | None = None
    given: Texts | None = None
    reason: str = ""
    spent: int = 0
    here: int = 0
    heard: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def over(self) -> bool:
        """Whether this ticket has what it proposes, or there is nothing left to."""
        return self.given is not None or self.queue == ()

    def next(self, ticket: int) -> Course:
        """The course as the next ticket finds it."""
        proposed = self.proposed if self.given is None else (*self.proposed, fingerprint(self.given))
        return replace(self, ticket=ticket, proposed=proposed, given=None, spent=self.spent + self.here, here=0)


def read_course(value: Json) -> Course:
    """The course that was kept; the one before the first ticket when there is none."""
    if not isinstance(value, dict):
        return Course()
    table = cast("dict[str, Any]", value)
    queue = None if table["queue"] is None else tuple(table["queue"])
    found: dict[str, Any] = {**table, "proposed": tuple(table["proposed"]), "queue": queue}
    return Course(**found)


def place(ticket: int) -> str:
    """Two places in turn: a ticket's steps never overwrite what the ticket before left."""
    return f"optimizer/{ticket % 2}"


def course_of(meta: Mapping[str, Json]) -> dict[str, Json]:
    """What a run's notes say of its optimizer; empty before its first ticket, and for other agents.

    {"step", "reason", "nominees" still to be proposed, "rollouts", "heard"}; `reason` is "" while it goes on.
    """
    course = max((read_course(meta.get(place(number))) for number in (0, 1)), key=lambda one: one.ticket)
    if not course.ticket:
        return {}
    return {
        "step": (course.state or {}).get("n", 0),
        "reason": course.reason,
        "nominees": None if course.queue is None else len(course.queue),
        "rollouts": course.spent + course.here,
        "heard": dict(course.heard),
    }
