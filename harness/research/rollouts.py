"""Durable rollouts: reserved, run in a slot, stored, paid for once. Infra errors are retried, never a verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import anyio

from harness.archive.base import Archive
from harness.archive.ledger import canonical
from harness.box.relay import Link
from harness.errors import InfraError
from harness.evaluation.contract import Evaluation
from harness.evaluation.split import SplitEvaluation
from harness.evaluation.tasks import TaskEvaluation
from harness.failpoint import failpoint
from harness.model.gateway import Gateway
from harness.records import Json, Outcome, RolloutKey, Status
from harness.research.attached import calling
from harness.streams import derive
from harness.tree import Tree

TRIES = 3
_PAUSE_S = 0.2


@dataclass
class Rollouts:
    """Runs rollouts for the engine, at most `slots` at a time.

    `canary` proves that a box works when a rollout's box keeps failing: if it does, the candidate breaks boxes and
    the outcome says infra_error; if not, the machine is at fault and InfraError ends the session. `longest_s` is the
    longest candidate run seen, in seconds; `took` the longest whole rollout of a whole split by tree, boxes and scorer
    included. `veil` hides what a seed is for from who is given it. `link` is the gateway
    that candidates are offered, where the policy names models. `began` is told of each that is really run.
    """

    archive: Archive
    evaluation: Evaluation
    seed: int
    slots: anyio.CapacityLimiter
    canary: Callable[[], Awaitable[None]]
    finished: Callable[[RolloutKey, Outcome], None]
    models: Gateway | None = None
    longest_s: float = 0.0
    took: dict[str, float] = field(default_factory=dict[str, float])
    veil: str = ""
    link: Callable[[RolloutKey], Link] | None = None
    began: Callable[[RolloutKey], None] | None = None
    _running: dict[RolloutKey, anyio.Event] = field(default_factory=dict[RolloutKey, anyio.Event])

    def seed_of(self, key: RolloutKey) -> int:
        """The harness-chosen seed: the same for every variant of one comparison, fresh for every other."""
        return derive(self.seed, "rollout", key.ticket, key.purpose, key.split, key.repeat, key.example) % 2**31

    def given(self, key: RolloutKey) -> int:
        """The seed as the box is told it: equal where `seed_of` is and trees are compared, and never to be worked out.

        A candidate that has read this source knows every `seed_of`, and so which split each belongs to; and one that
        says its seed in a crash would tell the next one the seed of screening, were that not another for every tree.
        """
        if not self.veil:
            return self.seed_of(key)
        own = key.tree if key.purpose == "screen" else ""
        return derive(self.seed_of(key), "box", self.veil, own) % 2**31

    async def run(self, key: RolloutKey, tree: Tree, evaluation: Evaluation | None = None) -> Outcome:
        """The outcome of `key`, from the archive if it is already paid for. Raises InfraError, StorageError.

        `evaluation` takes the place of the run's own, for a rollout on a part of a split.
        """
        while key in self._running:
            await self._running[key].wait()
        self._running[key] = done = anyio.Event()
        try:
            seed = self.seed_of(key)
            stored = await self.archive.begin_rollout(key, seed)
            if stored is not None:
                self.longest_s = max(self.longest_s, stored.wall_s)
                return stored
            failpoint("rollout-begun")
            async with self.slots:
                if self.began is not None:
                    self.began(key)
                began = anyio.current_time()
                outcome = await self._attempt(key, tree, self.given(key), evaluation)
            failpoint("rollout-ran")
            await self.archive.finish_rollout(key, outcome)
            failpoint("rollout-stored")
            if evaluation is None:
                self._remember(key, outcome, anyio.current_time() - began)
            self.longest_s = max(self.longest_s, outcome.wall_s)
            self.finished(key, outcome)
            return outcome
        finally:
            del self._running[key]
            done.set()

    async def recall(self) -> None:
        """Learn what a rollout takes from earlier sessions: the archive knows the candidates, a plain box the rest."""
        stored = [(key, outcome) for key, _, outcome in await self.archive.rollouts() if outcome is not None]
        began = anyio.current_time()
        await self.canary()
        boxes = 2 * (anyio.current_time() - began)
        for key, outcome in stored:
            self._remember(key, outcome, outcome.wall_s + boxes)

    def _remember(self, key: RolloutKey, outcome: Outcome, took: float) -> None:
        if outcome.status is Status.OK and not key.example:
            self.took[key.tree] = max(self.took.get(key.tree, 0.0), took)

    async def run_all(self, keys: Sequence[RolloutKey], tree: Tree) -> list[Outcome]:
        """The outcomes of several rollouts of one tree, run together, in the order of `keys`."""
        outcomes: dict[RolloutKey, Outcome] = {}

        async def one(key: RolloutKey) -> None:
            outcomes[key] = await self.run(key, tree)

        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(one, key)
        return [outcomes[key] for key in keys]

    async def _once(self, key: RolloutKey, tree: Tree, seed: int, evaluation: Evaluation | None) -> Outcome:
        with calling(key) as caller:
            outcome = await self._evaluated(key, tree, seed, evaluation)
        if self.models is not None:
            self.models.check()  # an upstream that is down is no fault of this variant's
            if caller in self.models.refusals:
                raise self.models.refusals[caller]  # nor is a budget that ran out under it, whatever came of it
        return outcome

    async def _evaluated(self, key: RolloutKey, tree: Tree, seed: int, evaluation: Evaluation | None) -> Outcome:
        if evaluation is None and key.example:
            return await cast("TaskEvaluation", self.evaluation).task(tree, key.split, key.example, seed)
        return await self._served(evaluation or self.evaluation, key).rollout(tree, key.split, seed)

    def _served(self, evaluation: Evaluation, key: RolloutKey) -> Evaluation:
        """The evaluation with the run's gateway offered to the candidate, on the account of this ticket and variant."""
        if self.link is None or not isinstance(evaluation, SplitEvaluation):
            return evaluation
        return replace(evaluation, spec=replace(evaluation.spec, link=self.link(key)))

    async def _attempt(self, key: RolloutKey, tree: Tree, seed: int, evaluation: Evaluation | None) -> Outcome:
        last = ""
        for attempt in range(1, TRIES + 1):
            try:
                return await self._once(key, tree, seed, evaluation)
            except InfraError as error:
                last = error.message
                await anyio.sleep(_PAUSE_S * attempt)
        await self.canary()
        return Outcome(Status.INFRA_ERROR, detail=f"its box failed {TRIES} times while a plain box works: {last}")


def cite(key: RolloutKey, seed: int, outcome: Outcome) -> dict[str, Json]:
    """A rollout as the ledger cites it."""
    items = hashlib.sha256(canonical(dict(outcome.items)).encode()).hexdigest() if outcome.items else ""
    return {
        "key": str(key),
        "seed": seed,
        "status": outcome.status.value,
        "score": outcome.score,
        "items": items,
        "outputs": outcome.outputs,
    }


def same_items(outcome: Outcome, expected: frozenset[str] | None) -> Outcome:
    """`outcome`, unless its item ids are not exactly the root's on that split: then it has no score."""
    if outcome.status is not Status.OK or expected is None or frozenset(outcome.items) == expected:
        return outcome
    return replace(outcome, status=Status.AGENT_ERROR, score=None, items={}, detail="item ids differ from the root's")
