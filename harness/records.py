"""The nouns of a run as frozen records. Everything here is plain data that turns into JSON and back.

Statuses are not scores: a score is a finite number in the declared range, or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Direction = Literal["min", "max"]


class Status(StrEnum):
    """How one rollout ended."""

    OK = "ok"
    AGENT_ERROR = "agent_error"
    TIMEOUT = "timeout"
    INFRA_ERROR = "infra_error"
    BLOCKED = "blocked"
    NO_BUDGET = "no_budget"


class Split(StrEnum):
    """Which examples a rollout ran on."""

    VISIBLE = "visible"
    HOLDOUT = "holdout"
    VAULT = "vault"


class Verdict(StrEnum):
    """What became of one ticket."""

    KEPT = "kept"
    ARCHIVED = "archived"
    DISCARDED = "discarded"
    BLOCKED = "blocked"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    DUPLICATE = "duplicate"
    NO_PROPOSAL = "no_proposal"
    INFRA = "infra"


class RunState(StrEnum):
    """Where a run stands."""

    CREATED = "created"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class RolloutKey:
    """What makes a rollout the same rollout: it is paid for once under this key, crash or no crash.

    `tree` is the variant's git tree id; `repeat` numbers the harness-chosen seed; `ticket` and `purpose`
    separate fresh confirmation runs from screening runs of the same tree; `example` names one task or example when
    the unit of work is not a whole split.
    """

    tree: str
    split: Split
    repeat: int = 0
    ticket: int = 0
    purpose: Literal["screen", "confirm", "holdout", "vault", "root"] = "screen"
    example: str = ""

    def __str__(self) -> str:
        whole = f"{self.ticket}/{self.purpose}/{self.split}/{self.repeat}/{self.tree}"
        return f"{whole}/{self.example}" if self.example else whole


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one rollout ended. `score` is None unless status is ok; `items` maps example id -> score.

    `detail` is untrusted text from the candidate, already encoded and capped. `wall_s` and `cpu_s` are
    measured over the candidate box; `memory_mb` is the most that one of its processes held in memory, None when
    nobody could see. `outputs` is the digest of what the candidate wrote.
    """

    status: Status
    score: float | None = None
    items: Mapping[str, float] = field(default_factory=dict[str, float])
    detail: str = ""
    outputs: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """One archived state of the subject. `id` is `v<ticket>`; the root is v0. `score` is the visible metric."""

    id: str
    ticket: int
    tree: str
    parents: tuple[str, ...]
    verdict: Verdict
    score: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One finished ticket as a proposer may see it: nothing of holdout or vault is in here.

    `changes` maps path -> new bytes (None removes), relative to the parent; `memo` is what the agent itself
    stored with the proposal.
    """

    ticket: int
    parent: str
    variant: str | None
    verdict: Verdict
    score: float | None
    parent_score: float | None
    note: str
    memo: Mapping[str, Json]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate and the guard made of one ticket. `evidence` holds every number the decision rests on.

    `reason` is one sentence a proposer may see; anything about the holdout lives only in `evidence`.
    """

    ticket: int
    verdict: Verdict
    variant: str | None
    reason: str
    evidence: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Usage:
    """One budget line: how much of `limit` is used. A limit of None is unlimited."""

    used: float
    limit: float | None


@dataclass(frozen=True, slots=True)
class Spend:
    """What model calls took. `nano_usd` is billionths of a dollar; `estimated`: the upstream did not tell all of it."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    nano_usd: int = 0
    estimated: bool = False

    def __add__(self, other: Spend) -> Spend:
        return Spend(
            self.requests + other.requests,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.nano_usd + other.nano_usd,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's whole answer as it came over HTTP: `media` is its content type, a stream's events are in `body`."""

    status: int
    media: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call in a run's journal. It is the same call again when ticket, role and `digest` of the request agree.

    `call` numbers the calls of (ticket, role) as they came; `held` is the worst case reserved for a try that has not
    been settled; `spent` is what the settled ones took; `reply` is None until one is complete.
    """

    ticket: int
    role: str
    call: int
    digest: str
    model: str
    dialect: str
    variant: str
    held: Spend
    spent: Spend
    reply: Reply | None


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended by itself. `exit_code` is negative for a signal, as in subprocess.

    `stdout` and `stderr` are capped; `truncated` says that more was thrown away.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool
    wall_s: float
    cpu_s: float
    memory_mb: float | None = None
