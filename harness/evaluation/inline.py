"""Inline evaluation: the eval runs in the candidate's own box, as autoresearch scripts do.

What it cannot promise: code that runs beside its own eval can, in the end, write whatever number it likes. Locks,
default deny, a fresh box, a strict parser and the declared range still hold. A Python eval is started by our own
program: isolated (-I), with the subject's locked modules first and new names last, and its number counts only if it ran
to its end (`channel`). The log and the report say `inline`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.box.base import DATA, EVAL, RESULT, WORK, Box, Boxes, BoxSpec, Command
from harness.errors import ExecTimeoutError, LimitError
from harness.evaluation.channel import Channel, own_names, pure_locked, script_of
from harness.evaluation.contract import SEED_VARIABLE
from harness.evaluation.result import MAX_BYTES, Result, ResultRefusedError, parse_number, parse_result
from harness.evaluation.split import ended, guard_metrics, one_result, stopped
from harness.evaluation.subject import Subject
from harness.records import Completed, Outcome, Split, Status
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
            await box.put(self._laid(tree), WORK)
            try:
                done, produced = await self._exec(box, command)
            except (ExecTimeoutError, LimitError) as error:
                return stopped(error)
            except _RefusedAfterError as refusal:
                return replace(ended(refusal.done), status=Status.AGENT_ERROR, detail=f"no score: {refusal}")
        outcome = ended(done)
        if outcome.status is not Status.OK:
            return outcome
        try:
            result = self._parse(done, produced)
        except ResultRefusedError as error:
            return replace(outcome, status=Status.AGENT_ERROR, detail=f"no score: {error}")
        return replace(outcome, score=result.score, items=result.all_items())

    async def _exec(self, box: Box, command: Command) -> tuple[Completed, list[Entry]]:
        """Run the eval, by our own program where it is Python; what it wrote to /result if it ended well."""
        what = script_of(command.argv)
        if what is None:
            done = await box.exec(command)
            wanted = done.exit_code == 0 and self.subject.file.eval.result == "file"
            return done, await box.get(RESULT, max_bytes=MAX_BYTES) if wanted else []
        kind, target, rest = what
        base = posixpath.dirname(target) if kind == "script" else ""
        locked, channel = pure_locked(self.subject, base), Channel()
        await channel.put_programs(box, locked)
        words = [EVAL, WORK, ",".join(own_names(self.subject, base)), kind, target, *rest]
        done = await box.exec(channel.command("inline.py", words, command))
        if done.exit_code != 0:
            return done, []
        try:
            produced = await channel.result(box)
            await channel.check_locked(box, locked)
        except ResultRefusedError as error:
            raise _RefusedAfterError(str(error), done) from error
        return done, produced

    def _laid(self, tree: Tree) -> list[Entry]:
        """The tree, its locked files without write bits."""
        return [
            replace(entry, mode=entry.mode & 0o555) if not self.subject.editable(entry.path.decode()) else entry
            for entry in tree.entries()
        ]

    def _parse(self, done: Completed, produced: Sequence[Entry]) -> Result:
        settings = self.subject.file.eval
        if settings.result == "file":
            return parse_result(
                one_result(produced),
                metric=settings.metric,
                allowed=settings.range,
                guards=guard_metrics(settings),
            )
        if done.truncated:
            raise ResultRefusedError("stdout was longer than its cap; a printed metric cannot be trusted to be whole")
        score = parse_number(one_line(done.stdout, settings.metric), metric=settings.metric, allowed=settings.range)
        return Result(score, {})


class _RefusedAfterError(ResultRefusedError):
    """The eval ended well, and what it left is refused."""

    def __init__(self, message: str, done: Completed) -> None:
        super().__init__(message)
        self.done = done


def one_line(stdout: bytes, metric: str) -> str:
    """The text after `metric:` or `metric =` if exactly one line of stdout has it, else ResultRefusedError."""
    pattern = re.compile(rb"^[ \t]*" + re.escape(metric.encode()) + rb"[ \t]*[:=][ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)
    found: list[bytes] = pattern.findall(stdout)
    if len(found) != 1:
        raise ResultRefusedError(f"stdout has {len(found)} lines `{metric}: NUMBER`; it must have exactly one")
    return found[0].decode("ascii", "backslashreplace")
