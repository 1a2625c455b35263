"""What an agent is: whatever proposes a child from a parent. It sees an `Ask` and answers a `Proposal`.

An agent is a pure function of the ask (history and stream included), so that a resumed run proposes what the
uninterrupted one would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from harness.records import Attempt, Direction, Json, Status, Variant
from harness.tree import Entry, Tree


@dataclass(frozen=True, slots=True)
class Trace:
    """How the parent did on one visible task: `detail` is untrusted text, already encoded and capped."""

    task: str
    repeat: int
    status: Status
    score: float | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a proposer is given: the parent, its tree without labels or scorer, and what was tried before.

    `history` is in ticket order; `is_editable(path)` is the policy's word on a path; `rng` is this ticket's own
    named stream; `traces` tell how the parent did task by task, where it was run so; `in_flight` is how many tickets
    are under way at once, this one included: what the others propose is not in the history yet.
    """

    ticket: int
    parent: Variant
    tree: Tree
    history: Sequence[Attempt]
    metric: str
    direction: Direction
    is_editable: Callable[[str], bool]
    rng: np.random.Generator
    traces: Sequence[Trace] = ()
    in_flight: int = 1


@dataclass(frozen=True, slots=True)
class Proposal:
    """A child. Either `changes` (path -> new bytes, None removes) or a whole `tree` as a box gave it back.

    `memo` is kept with the ticket and handed back in later histories; `note` is one untrusted line for people.
    """

    changes: Mapping[str, bytes | None] = field(default_factory=dict[str, "bytes | None"])
    tree: tuple[Entry, ...] | None = None
    note: str = ""
    memo: Mapping[str, Json] = field(default_factory=dict[str, Json])


class Agent(Protocol):
    """A proposer of children."""

    name: str

    async def propose(self, ask: Ask) -> Proposal | None:
        """One child of `ask.parent`, or None when there is nothing left to try. Raises AgentError."""
        ...


@runtime_checkable
class Ends(Protocol):
    """An agent that can say why it has nothing left to try."""

    ended: str
