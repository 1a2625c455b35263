"""Inline evaluation: the eval runs in the candidate's own box, as autoresearch scripts do.

What it cannot promise: code that runs beside its own eval can, in the end, write whatever number it likes. Locks,
default deny, a fresh box, a strict parser and the declared range still hold; the log and the report say `inline`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.box.base import DATA, RESULT, WORK, Boxes, BoxSpec, Command, Completed
from harness.errors import ExecTimeoutError, LimitError
from harness.evaluation.contract import SEED_VARIABLE
from harness.evaluation.result import MAX_BYTES, Result, ResultRefusedError, parse_number, parse_result
from harness.evaluation.split import ended, one_result, stopped
from harness.evaluation.subject import Subject
from harness.records import Outcome, Split, Status
from harness.tree import Entry, Tree


@dataclass(frozen=True, slots=True)
class InlineEvaluation:
    """One box a rollout; the number comes from /result/result.json or from one line of stdout."""

    subject: Subject
    boxes: Boxes
    spec: BoxSpec

    async def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """See `Evaluation`."""
        settings = self.subject.file.eval
        data = self.subject.splits.get(split)
        command = Command(settings.run, settings.timeout_s, WORK, {**settings.env, SEED_VARIABLE: str(seed)})
        async with self.boxes.open(self.spec) as box:
            if data is not None:
                await box.put(data.inputs.entries(), DATA, read_only=True)
            await box.put(tree.entries(), WORK)
            try:
                done = await box.exec(command)
                outcome = ended(done)
                if outcome.status is not Status.OK:
                    return outcome
                produced = await box.get(RESULT, max_bytes=MAX_BYTES) if settings.result == "file" else []
            except (ExecTimeoutError, LimitError) as error:
                return stopped(error)
        try:
            result = self._parse(done, produced)
        except ResultRefusedError as error:
            return replace(outcome, status=Status.AGENT_ERROR, detail=f"no score: {error}")
        return replace(outcome, score=result.score, items=result.items)

    def _parse(self, done: Completed, produced: Sequence[Entry]) -> Result:
        settings = self.subject.file.eval
        if settings.result == "file":
            return parse_result(one_result(produced), metric=settings.metric, allowed=settings.range)
        if done.truncated:
            raise ResultRefusedError("stdout was longer than its cap; a printed metric cannot be trusted to be whole")
        score = parse_number(one_line(done.stdout, settings.metric), metric=settings.metric, allowed=settings.range)
        return Result(score, {})


def one_line(stdout: bytes, metric: str) -> str:
    """The text after `metric:` or `metric =` if exactly one line of stdout has it, else ResultRefusedError."""
    pattern = re.compile(rb"^[ \t]*" + re.escape(metric.encode()) + rb"[ \t]*[:=][ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)
    found: list[bytes] = pattern.findall(stdout)
    if len(found) != 1:
        raise ResultRefusedError(f"stdout has {len(found)} lines `{metric}: NUMBER`; it must have exactly one")
    return found[0].decode("ascii", "backslashreplace")
