"""What a run tells while it goes: typed events, in the order things became durable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.records import Decision, Json, Outcome, RolloutKey, Usage


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run is open. `resumed` is True after an interruption; `isolation` names the box back end.

    `roles` names the model of each role of an optimizer's run: proposes, evaluates, serves.
    """

    run_id: str
    folder: str
    subject: str
    metric: str
    direction: str
    seed: int
    workers: int
    steps: int
    isolation: str
    resumed: bool
    roles: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class RootMeasured:
    """The root's visible metric, and whether two runs of it agreed. `interval` is a posterior's, at 95 %."""

    score: float
    deterministic: bool
    noise: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class TicketStarted:
    """A proposal is being made from `parent`."""

    ticket: int
    parent: str


@dataclass(frozen=True, slots=True)
class RolloutFinished:
    """One rollout ended (visible ones only carry a score; the others are sealed)."""

    key: RolloutKey
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TicketDecided:
    """A ticket is committed. `score` is its visible metric, `incumbent` the incumbent after it.

    The intervals are at 95 %, of posteriors: None where the eval is run whole.

    `roles` tells of an optimizer's run what each role took so far: {role: {"model", "requests", ...}}.
    """

    decision: Decision
    score: float | None
    note: str
    incumbent: str
    incumbent_score: float
    counts: Mapping[str, int]
    budget: Mapping[str, Usage]
    surprises: int
    interval: tuple[float, float] | None = None
    incumbent_interval: tuple[float, float] | None = None
    roles: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class RunStopped:
    """No further tickets: `reason` names the rule that ended it."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The vault is opened and the run is over. `summary` is what `strop status --json` prints."""

    summary: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to know that decides nothing."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelAwaited:
    """Calls of a model are waited out for `reason`, since `waited_s` seconds and for `patience_s` at most.

    With an empty `reason` they are not any more: it answers, or nobody asks it.
    """

    model: str
    reason: str
    waited_s: float
    patience_s: float


Event = (
    RunStarted
    | RootMeasured
    | TicketStarted
    | RolloutFinished
    | TicketDecided
    | ModelAwaited
    | RunStopped
    | RunFinished
    | Notice
)
