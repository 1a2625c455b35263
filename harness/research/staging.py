"""Staged evaluation: a variant climbs from stage to stage, task by task, and stops when the rest cannot matter.

(variant, task) is the unit of work and is paid for once. Tasks run in waves of as many as there are workers, and the
bound is asked after each wave, so that the same tasks run however the waves interleave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import anyio

from harness.evaluation.functioning import checks
from harness.evaluation.tasks import TaskEvaluation
from harness.records import Json, Outcome, RolloutKey, Split, Status
from harness.research.evidence.posterior import Share, chance_of
from harness.research.select import goodness, restored
from harness.research.session import Session
from harness.streams import stream
from harness.tree import Tree


@dataclass
class Climb:
    """How far a variant came. `values` maps a task to its mean over repeats, larger is better, in [0, 1].

    `stage` counts the stages whose every task was run; `why` says where it ended early; `broken` names the
    functioning check that failed.
    """

    values: dict[str, float] = field(default_factory=dict[str, float])
    runs: list[tuple[RolloutKey, Outcome]] = field(default_factory=list[tuple[RolloutKey, Outcome]])
    stage: int = 0
    why: str = ""
    broken: tuple[str, Outcome] | None = None

    @property
    def share(self) -> Share:
        """The evidence as a posterior."""
        wins = math.fsum(self.values.values())
        return Share(wins, len(self.values) - wins)


def by_task(session: Session) -> bool:
    """Whether variants are run task by task."""
    evaluation = session.rollouts.evaluation
    return session.policy.archive.mode != "incumbent" and bool(getattr(evaluation, "tasks", _none)(Split.VISIBLE))


def _none(split: Split) -> list[str]:
    return []


def value_of(session: Session, score: float) -> float:
    """A task's score as evidence: larger is better, in [0, 1]."""
    settings = session.subject.file.eval
    return min(1.0, max(0.0, goodness(score, settings.direction, settings.range)))


def shown(session: Session, share: Share) -> float:
    """The posterior mean as the metric says it."""
    settings = session.subject.file.eval
    return restored(share.mean, settings.direction, settings.range)


def posterior(session: Session, share: Share) -> dict[str, Json]:
    """A share as evidence: solved of run, and the posterior's mean and 95 % interval as the metric says them."""
    settings = session.subject.file.eval
    mean, *ends = (restored(one, settings.direction, settings.range) for one in (share.mean, *share.interval()))
    return {"solved": share.wins, "run": round(share.wins + share.losses), "mean": mean, "interval": [*sorted(ends)]}


@dataclass(frozen=True, slots=True)
class Stages:
    """The declared stages over the visible tasks, in an order drawn once for the whole run."""

    session: Session

    def order(self) -> list[str]:
        """Every visible task, in the order of evaluation."""
        names = cast("TaskEvaluation", self.session.rollouts.evaluation).tasks(Split.VISIBLE)
        return [names[int(place)] for place in stream(self.session.seed, "task-order").permutation(len(names))]

    def plan(self) -> list[tuple[list[str], float]]:
        """Each stage's tasks and threshold; stages that no task is left for are not there."""
        left, found = self.order(), list[tuple[list[str], float]]()
        for stage in self.session.policy.stages.plan:
            tasks = left[: stage.tasks] if stage.tasks else left
            left = left[len(tasks) :]
            if tasks:
                found.append((tasks, stage.threshold))
        return found

    def times(self, task: str) -> int:
        """How often a task is run: more often where the root's own runs of it disagree."""
        policy = self.session.policy.stages
        return max(policy.repeats, policy.unstable if task in self.session.standing.unstable else 1)

    async def climb(self, tree_id: str, tree: Tree, *, forced: int = 0) -> Climb:
        """Take a variant through its checks and stages; the first `forced` stages are run whole whatever they say."""
        climb = Climb()
        for name in checks(self.session.subject):
            (outcome,) = await self._run(climb, tree_id, tree, [(name, 0)])
            if outcome.status is not Status.OK:
                climb.broken = name, outcome
                return climb
        for number, (tasks, threshold) in enumerate(self.plan(), start=1):
            if not await self._stage(climb, tree_id, tree, tasks, threshold, whole=number <= forced):
                if climb.stage < number:
                    climb.why = f"stage {number} stopped early after {len(climb.values)} tasks"
                elif number < forced:
                    continue
                break
        return climb

    async def _stage(
        self, climb: Climb, tree_id: str, tree: Tree, tasks: Sequence[str], threshold: float, *, whole: bool
    ) -> bool:
        """Whether the stage was passed."""
        policy, width = self.session.policy.stages, self.session.policy.schedule.workers
        total = len(climb.values) + len(tasks)
        for start in range(0, len(tasks), width):
            wave = tasks[start : start + width]
            asked = [(task, repeat) for task in wave for repeat in range(self.times(task))]
            outcomes = await self._run(climb, tree_id, tree, asked)
            for task in wave:
                mine = [one for (name, _), one in zip(asked, outcomes, strict=True) if name == task]
                known = [value for one in mine if (value := self.value(one)) is not None]
                if known:
                    climb.values[task] = math.fsum(known) / len(known)
            left = len(tasks) - start - len(wave)
            needed = threshold * total - climb.share.wins
            if left and not whole and chance_of(needed, left, climb.share) < policy.doubt:
                return False
        climb.stage += 1
        return climb.share.wins >= threshold * len(climb.values) - 1e-9

    async def _run(self, climb: Climb, tree_id: str, tree: Tree, asked: Sequence[tuple[str, int]]) -> list[Outcome]:
        keys = [RolloutKey(tree_id, Split.VISIBLE, repeat, 0, "screen", name) for name, repeat in asked]
        outcomes: dict[RolloutKey, Outcome] = {}

        async def one(key: RolloutKey) -> None:
            outcomes[key] = await self.session.rollouts.run(key, tree)

        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(one, key)
        climb.runs += [(key, outcomes[key]) for key in keys]
        return [outcomes[key] for key in keys]

    def value(self, outcome: Outcome) -> float | None:
        """A run as evidence: its score as larger-is-better; 0 when the variant failed, None when its box did."""
        if outcome.status is Status.INFRA_ERROR:
            return None
        if outcome.score is None:
            return 0.0
        return value_of(self.session, outcome.score)

    def worst_case(self) -> int:
        """The most rollouts of one task each that a ticket can take: the child's, and its parent's promotion."""
        policy = self.session.policy.stages
        runs = sum(self.times(task) for tasks, _ in self.plan() for task in tasks)
        return len(checks(self.session.subject)) + runs * (2 if policy.promote else 1)
