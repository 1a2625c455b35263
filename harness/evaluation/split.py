"""Split evaluation: candidate code runs without labels; a fresh box without candidate code scores what it wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from harness.box.base import DATA, EVAL, LABELS, OUT, RESULT, WORK, Box, Boxes, BoxSpec, Command
from harness.errors import BoxClosedError, ExecTimeoutError, InfraError, LimitError
from harness.evaluation.contract import MAX_OUTPUT_BYTES, SEED_VARIABLE
from harness.evaluation.plausible import implausible
from harness.evaluation.result import MAX_BYTES, Result, ResultRefusedError, parse_result
from harness.evaluation.subject import Subject
from harness.policy.schema import EvalTable
from harness.records import Completed, Outcome, Split, Status
from harness.tree import Entry, Tree
from harness.untrusted import clean, line


class Used(TypedDict):
    """What a command took of the machine."""

    wall_s: float
    cpu_s: float
    memory_mb: float | None


@dataclass(frozen=True, slots=True)
class SplitEvaluation:
    """Two boxes a rollout: nothing of the candidate reaches the scorer but plain files in /out."""

    subject: Subject
    boxes: Boxes
    spec: BoxSpec

    async def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """See `Evaluation`."""
        outcome, written = await self.produce(tree, split, seed)
        if outcome.status is not Status.OK:
            return outcome
        return await self.grade(outcome, written, split)

    async def produce(self, tree: Tree, split: Split, seed: int, log: bytes = b"") -> tuple[Outcome, list[Entry]]:
        """Run `tree` on the inputs of `split`: how it ended, and the plain files it wrote if that was well.

        If it was not, what lies at `log` in /out is all that comes back, where it is a plain file; nothing scores it.
        """
        settings = self.subject.file.eval
        command = Command(settings.run, settings.timeout_s, WORK, {**settings.env, SEED_VARIABLE: str(seed)})
        async with self.boxes.open(self.spec.running(tree.digest)) as box:
            if self.spec.link is not None:
                await box.attach(self.spec.link)
            await box.put(self.subject.splits[split].inputs.entries(), DATA, read_only=True)
            await box.put(tree.entries(), WORK)
            try:
                done = await box.exec(command)
            except (ExecTimeoutError, LimitError) as error:
                return stopped(error), await _left(box, log)
            outcome = ended(done)
            if outcome.status is not Status.OK:
                return outcome, await _left(box, log)
            try:
                written = await box.get(OUT, max_bytes=MAX_OUTPUT_BYTES)
            except LimitError as error:
                return replace(outcome, status=Status.AGENT_ERROR, detail=f"/out {error.message}"), []
        outcome, files = check_outputs(outcome, written)
        reason = implausible(settings.plausible, files) if outcome.status is Status.OK else None
        if reason is not None:
            return replace(outcome, status=Status.AGENT_ERROR, detail=reason), []
        return outcome, files

    async def grade(self, ran: Outcome, written: Sequence[Entry], split: Split) -> Outcome:
        """Score plain files that a run of `split` wrote, in a box of pinned code only."""
        settings = self.subject.file.eval
        assert settings.score is not None
        # formats whose scorer runs what a candidate wrote get a box of their own every time
        reusable = settings.mode == "split" or settings.format in ("dataset", "reasoning_gym")
        async with self.boxes.open(replace(self.spec, reusable=reusable)) as box:
            await box.put(self.subject.scorer.entries(), EVAL, read_only=True)
            await box.put(self.subject.splits[split].labels.entries(), LABELS, read_only=True)
            await box.put(written, OUT, read_only=True)
            try:
                done = await box.exec(Command(settings.score, settings.timeout_s, EVAL, settings.env))
                produced = await box.get(RESULT, max_bytes=MAX_BYTES) if done.exit_code == 0 else []
            except (ExecTimeoutError, LimitError) as error:
                return replace(ran, status=Status.AGENT_ERROR, detail=f"the scorer did not finish: {error.message}")
        try:
            result = self._parse(done, produced)
        except ResultRefusedError as error:
            return replace(ran, status=Status.AGENT_ERROR, detail=f"no score: {error}")
        return replace(ran, score=result.score, items=result.all_items())

    def _parse(self, done: Completed, produced: Sequence[Entry]) -> Result:
        if done.exit_code != 0:
            raise ResultRefusedError(f"the scorer exited with {done.exit_code}: {line(tail(done), 300)}")
        return parse_result(
            one_result(produced),
            metric=self.subject.file.eval.metric,
            allowed=self.subject.file.eval.range,
            guards=guard_metrics(self.subject.file.eval),
        )


async def _left(box: Box, log: bytes) -> list[Entry]:
    """The log that a failed run left, or nothing: how it failed is known, whatever its box still gives back."""
    if not log:
        return []
    try:
        written = await box.get(OUT, max_bytes=MAX_OUTPUT_BYTES)
    except (LimitError, InfraError, BoxClosedError):
        return []
    return [entry for entry in written if entry.path == log and entry.kind == "file"]


def guard_metrics(settings: EvalTable) -> tuple[str, ...]:
    """The secondary metrics that a result must hold."""
    return tuple(guard.metric for guard in settings.guard if guard.metric is not None)


def one_result(produced: Sequence[Entry]) -> bytes:
    """The bytes of result.json if it is the only thing in /result, else ResultRefusedError."""
    if not produced:
        raise ResultRefusedError("nothing was written to /result/result.json")
    if len(produced) > 1 or produced[0].path != b"result.json" or produced[0].kind != "file":
        names = ", ".join(line(entry.path, 40) for entry in produced[:3])
        raise ResultRefusedError(f"/result must hold one regular file, result.json; it holds {names}")
    return produced[0].data


def ended(done: Completed) -> Outcome:
    """The outcome of a candidate's command that ended by itself; not yet scored."""
    if done.exit_code != 0:
        detail = f"exit code {done.exit_code}: {clean(tail(done), 1500)}"
        return Outcome(Status.AGENT_ERROR, detail=detail, **used(done))
    return Outcome(Status.OK, **used(done))


def stopped(error: ExecTimeoutError | LimitError) -> Outcome:
    """The outcome of a candidate's command that was killed."""
    status = Status.TIMEOUT if isinstance(error, ExecTimeoutError) else Status.AGENT_ERROR
    return Outcome(status, detail=error.message, **used(error.partial))


def used(done: Completed) -> Used:
    """What a command took, as the fields of an `Outcome`."""
    return Used(wall_s=done.wall_s, cpu_s=done.cpu_s, memory_mb=done.memory_mb)


def check_outputs(outcome: Outcome, written: Sequence[Entry]) -> tuple[Outcome, list[Entry]]:
    """Refuse outputs that are not plain files in plain folders; else add their digest."""
    for entry in written:
        if entry.kind not in ("file", "dir"):
            detail = f"/out holds a {entry.kind}: {line(entry.path, 80)}"
            return replace(outcome, status=Status.AGENT_ERROR, detail=detail), []
    files = sorted((entry for entry in written if entry.kind == "file"), key=lambda entry: entry.path)
    whole = hashlib.sha256()
    for entry in files:
        whole.update(f"{len(entry.path)}:".encode() + entry.path + hashlib.sha256(entry.data).digest())
    return replace(outcome, outputs=whole.hexdigest()), files


def tail(done: Completed) -> bytes:
    """The last words of a command."""
    return (done.stderr.strip() or done.stdout.strip())[-2000:]
