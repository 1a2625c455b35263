"""What every step of a run needs, in one place: the run's parts, and nothing that decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.agent.base import Agent
from harness.archive.sqlite import SqliteArchive
from harness.box.base import BoxSpec
from harness.clock import Clock
from harness.evaluation.contract import Evaluation
from harness.evaluation.subject import Subject
from harness.events import Event
from harness.model.server import Server
from harness.policy.schema import Policy
from harness.records import Json, Split
from harness.repo.store import TreeStore
from harness.research.evidence.gate import Gate
from harness.research.optimize.agent import OptimizerAgent
from harness.research.roles import models_by_role
from harness.research.rollouts import Rollouts
from harness.research.seeds import Seed
from harness.research.standing import Standing

Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Hold:
    """A run folder held by this process: its records, its trees and the clock they are stamped by.

    `standing` is where a run stood that was read and found sound when it was taken up again; `began` is when this
    process took it, on its clock, in seconds.
    """

    folder: Path
    archive: SqliteArchive
    store: TreeStore
    clock: Clock
    standing: Standing | None = None
    began: float = 0.0

    async def append(self, kind: str, body: Mapping[str, Json] | None, obs: Mapping[str, Json] | None = None) -> None:
        """Add a ledger row and anchor the head."""
        entry = await self.archive.append(kind, body, {"at": self.clock.now(), **(obs or {})})
        await self.store.anchor(entry.hash, entry.seal, entry.seq)


@dataclass
class Session:
    """One process's hold on a run."""

    hold: Hold
    seed: int
    subject: Subject
    policy: Policy
    agent: Agent
    rollouts: Rollouts
    standing: Standing
    emit: Emit
    isolation: str
    spec: BoxSpec
    on_examples: Callable[[Subject], Evaluation]
    models: Server | None = None
    seeds: Sequence[Seed] = ()

    @property
    def width(self) -> int:
        """Tickets in flight at once: as many as workers, but one for an optimizer, whose steps build on each other."""
        return 1 if isinstance(self.agent, OptimizerAgent) else self.policy.schedule.workers

    @property
    def roles(self) -> dict[str, str]:
        """The model of each role of an optimizer's run; empty for other agents."""
        if not isinstance(self.agent, OptimizerAgent):
            return {}
        return models_by_role(self.policy.agent.config, simulated=self.subject.file.eval.world is not None)

    @property
    def run_id(self) -> str:
        """The run's name: its folder's."""
        return self.hold.folder.name

    @property
    def archive(self) -> SqliteArchive:
        """The run's records."""
        return self.hold.archive

    @property
    def store(self) -> TreeStore:
        """The run's trees."""
        return self.hold.store

    @property
    def gate(self) -> Gate:
        """The gate, once the root says what kind of metric this is."""
        return Gate(self.policy.gate, self.subject.file.eval.direction, self.standing.deterministic)

    def has(self, split: Split) -> bool:
        """Whether the subject has that split."""
        return split in self.subject.splits
