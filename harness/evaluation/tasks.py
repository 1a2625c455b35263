"""Evaluation by task: each task is a split of its own, run and scored in boxes of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import anyio

from harness.box.base import Boxes, BoxSpec
from harness.box.relay import Link
from harness.evaluation.contract import Evaluation
from harness.evaluation.formats.base import task_names
from harness.evaluation.functioning import PREFIX, Functioning
from harness.evaluation.split import SplitEvaluation
from harness.evaluation.subject import SplitData, Subject
from harness.records import Outcome, Split, Status
from harness.streams import derive
from harness.tree import Entry, Tree
from harness.untrusted import clean

AT_ONCE = 4
Models = Callable[[], Link]
TRACE = b"trace.log"
TRACE_BYTES = 4000


class TaskEvaluation(Evaluation, Protocol):
    """An evaluation whose unit of work is one task of one variant."""

    def tasks(self, split: Split) -> list[str]:
        """The names of a split's tasks, in order."""
        ...

    async def task(self, tree: Tree, split: Split, name: str, seed: int) -> Outcome:
        """Run and score one task, or one functioning check. Raises InfraError."""
        ...


@dataclass(frozen=True, slots=True)
class TasksEvaluation:
    """`TaskEvaluation` over boxes. A whole split is all its tasks; one that failed counts there as not solved."""

    subject: Subject
    boxes: Boxes
    spec: BoxSpec
    models: Models | None = None

    def tasks(self, split: Split) -> list[str]:
        """See `TaskEvaluation`."""
        data = self.subject.splits.get(split)
        return [] if data is None else task_names(data)

    async def task(self, tree: Tree, split: Split, name: str, seed: int) -> Outcome:
        """See `TaskEvaluation`. The score is kept under the task's name."""
        if name.startswith(PREFIX):
            return await Functioning(self.subject, self.boxes, self._spec()).check(tree, name, seed)
        evaluation = self.alone(split, name)
        visible = split is Split.VISIBLE
        outcome, written = await evaluation.produce(tree, split, seed, TRACE if visible else b"")
        if outcome.status is Status.OK:
            outcome = await evaluation.grade(outcome, written, split)
        if visible:
            outcome = _with_trace(outcome, written)
        return replace(outcome, items={name: outcome.score} if outcome.score is not None else {})

    def alone(self, split: Split, name: str) -> SplitEvaluation:
        """The evaluation of one task, as if the split had no other."""
        data = self.subject.splits[split]
        only = SplitData(data.inputs.subtree(name), data.labels.subtree(name))
        return SplitEvaluation(replace(self.subject, splits={split: only}), self.boxes, self._spec())

    def _spec(self) -> BoxSpec:
        """A box whose calls to the gateway are booked on the rollout that is going on."""
        return self.spec if self.models is None else replace(self.spec, link=self.models())

    async def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """Every task of the split, a few at once."""
        names = self.tasks(split)
        outcomes: dict[str, Outcome] = {}
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def one(name: str) -> None:
            async with limiter:
                outcomes[name] = await self.task(tree, split, name, derive(seed, "task", name) % 2**31)

        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(one, name)
        whole = together(self.subject, [(name, outcomes[name]) for name in names])
        if split is not Split.VISIBLE or whole.status is not Status.OK:
            return whole
        return replace(whole, detail=_bound([(name, outcomes[name]) for name in names], whole.detail))


def _with_trace(outcome: Outcome, written: Sequence[Entry]) -> Outcome:
    """The end of the trace that the candidate wrote, for whoever learns from it; nothing scores by it."""
    trace = next((entry.data for entry in written if entry.path == TRACE and entry.kind == "file"), b"")
    if not trace:
        return outcome
    if outcome.status is Status.OK:
        return replace(outcome, detail=clean(trace[-TRACE_BYTES:], TRACE_BYTES))
    return replace(outcome, detail=f"{outcome.detail}\n{clean(trace[-TRACE_BYTES // 2 :], TRACE_BYTES // 2)}")


def _bound(outcomes: Sequence[tuple[str, Outcome]], summary: str) -> str:
    """The traces of a whole split in one text, below its summary: for whoever learns from them, by `unbound`."""
    traces = {name: [one.status.value, one.detail] for name, one in outcomes if one.detail or one.score is None}
    return f"{summary}\n{json.dumps(traces)}" if traces else summary


def unbound(detail: str) -> dict[str, tuple[Status, str]]:
    """How each task of a whole visible split ended and what it said of itself, as `_bound` wrote it down."""
    _, _, told = detail.partition("\n")
    try:
        table: Any = json.loads(told) if told else {}
        return {str(name): (Status(status), str(text)) for name, (status, text) in table.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def together(subject: Subject, outcomes: list[tuple[str, Outcome]]) -> Outcome:
    """Tasks as one outcome, their mean score: a failed one has the worst score; if all failed, there is none."""
    low, high = subject.file.eval.range or (0.0, 1.0)
    worst = low if subject.file.eval.direction == "max" else high
    wall, cpu = sum(one.wall_s for _, one in outcomes), sum(one.cpu_s for _, one in outcomes)
    memory = max((one.memory_mb for _, one in outcomes if one.memory_mb is not None), default=None)
    if not any(one.status is Status.OK for _, one in outcomes):
        first = outcomes[0][1] if outcomes else Outcome(Status.AGENT_ERROR, detail="there are no tasks")
        return replace(first, items={}, score=None, wall_s=wall, cpu_s=cpu, memory_mb=memory)
    items = {name: worst if one.score is None else one.score for name, one in outcomes}
    failed = sum(one.score is None for _, one in outcomes)
    detail = f"{failed} of {len(items)} tasks ended without a score" if failed else ""
    return Outcome(
        Status.OK, math.fsum(items.values()) / len(items), items, detail, wall_s=wall, cpu_s=cpu, memory_mb=memory
    )
