"""The durable side of a run: records, ledger and rollouts behind one protocol.

Ownership: one process writes (the run's lock sees to it), any number read. Every method returns only after what
it wrote is on disk. Write methods raise StorageError; reads of a damaged store raise IntegrityError.

The ledger holds two chains. `hash` covers what was decided and on what evidence, and nothing of the clock, so two
runs with the same seed have the same head. `seal` covers `hash` and the observations (times, durations,
sessions) as well, so neither can be rewritten alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.records import Attempt, Json, Outcome, RolloutKey, Variant


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One ledger row. Kinds with a body: run, budget, root, ticket, stop, vault. Kinds without: session.

    hash = sha256(previous hash, kind, body) for rows with a body, else the previous hash;
    seal = sha256(previous seal, hash, kind, obs).
    """

    seq: int
    kind: str
    ticket: int | None
    body: Mapping[str, Json] | None
    obs: Mapping[str, Json]
    hash: str
    seal: str


@dataclass(frozen=True, slots=True)
class StoredProposal:
    """A ticket's proposal, stored before anything of it is evaluated. `tree` is None when it was refused.

    `violations` are the door's refusals; `note` and `memo` are the agent's; `patch` is for people.
    """

    ticket: int
    parent: str
    tree: str | None
    note: str
    memo: Mapping[str, Json]
    violations: tuple[str, ...]
    status: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Everything one ticket adds, made durable in one transaction, in ticket order.

    `variant` is None when nothing was archived; `attempt` is the line later proposers see.
    """

    ticket: int
    body: Mapping[str, Json]
    obs: Mapping[str, Json]
    variant: Variant | None
    attempt: Attempt | None


class Archive(Protocol):
    """The store of one run."""

    # -- writing: only by the run's owner ---------------------------------------------------------------
    async def append(self, kind: str, body: Mapping[str, Json] | None, obs: Mapping[str, Json]) -> LedgerEntry:
        """Add a ledger row outside a ticket."""
        ...

    async def commit(self, commit: Commit) -> LedgerEntry:
        """Make one ticket durable: ledger row, variant and attempt together. Tickets come in order."""
        ...

    async def store_proposal(self, proposal: StoredProposal) -> None: ...

    async def begin_rollout(self, key: RolloutKey, seed: int) -> Outcome | None:
        """Reserve a rollout; the outcome instead if this key is already paid for."""
        ...

    async def finish_rollout(self, key: RolloutKey, outcome: Outcome) -> None: ...

    async def set_meta(self, name: str, value: Json) -> None: ...

    # -- reading ----------------------------------------------------------------------------------------
    async def meta(self) -> Mapping[str, Json]: ...

    async def proposal(self, ticket: int) -> StoredProposal | None: ...

    async def variants(self) -> Sequence[Variant]: ...

    async def attempts(self) -> Sequence[Attempt]:
        """Every committed ticket's attempt, in ticket order."""
        ...

    async def rollouts(self) -> Sequence[tuple[RolloutKey, int, Outcome | None]]:
        """(key, seed, outcome or None if it never finished), in the order they were begun."""
        ...

    async def ledger(self, after: int = 0) -> Sequence[LedgerEntry]:
        """Rows with seq > `after`, in order, unverified."""
        ...

    async def head(self) -> tuple[str, str]:
        """(hash, seal) of the last row; zeros of a run without rows."""
        ...

    async def aclose(self) -> None: ...
