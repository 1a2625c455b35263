"""What came of a role's replies: how many there were, and why those could not be used that could not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.optimizer.admit import TRIED
from harness.optimizer.base import Refusal, Role, Slot
from harness.records import Json
from harness.untrusted import line

_KINDS = 12
OTHER = "for other reasons"


class Heard:
    """Counts by role, as JSON {role: {"replies": n, "unusable": {why: n}}}.

    A reply is unusable when it is empty or cut off, when its text is no admissible edit, and when a reader of lists or
    verdicts finds none in it. No reply is counted for two reasons.
    """

    def __init__(self, counts: Mapping[str, Any] | None = None) -> None:
        self._replies = Counter[str]()
        self._unusable: dict[str, Counter[str]] = {}
        for role, found in (counts or {}).items():
            self._replies[role] = found["replies"]
            self._unusable[role] = Counter(found["unusable"])

    def json(self) -> dict[str, Json]:
        """The counts, for a state or a summary."""
        return {
            role: {"replies": replies, "unusable": dict(self._unusable.get(role, {}))}
            for role, replies in self._replies.items()
        }

    def took(self, role: Role, text: str | None, why: str = "") -> None:
        """A reply came; without text it says `why`."""
        self._replies[role.value] += 1
        if text is None:
            self.unusable(role, why or "an empty reply")

    def unusable(self, role: Role, why: str) -> None:
        """A reply with text in it was of no use."""
        found = self._unusable.setdefault(role.value, Counter())
        why = line(why, 200)
        found[why if why in found or len(found) < _KINDS else OTHER] += 1

    def refused(self, slots: Sequence[Slot], edits: Mapping[str, str | None], refusal: Refusal) -> None:
        """An edit was not admitted. Worked examples are no model's; a reply without text was counted as it came."""
        written = {slot.name for slot in slots if slot.kind == "text"}
        if any(name in written for name in edits) and all(text is not None for text in edits.values()):
            why = "the same as a text already tried" if refusal.reason == TRIED else _without_numbers(refusal.reason)
            self.unusable(Role.PROPOSES, why)


def _without_numbers(reason: str) -> str:
    """One reason for what differs in its numbers only: `9120 characters, more than 4000` is `too long`."""
    return f"{reason.partition(':')[0]}: too long" if "characters, more than" in reason else reason
