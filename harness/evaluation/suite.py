"""Pytest evaluation: pinned tests run against the candidate; every test is an example.

Tests, configuration and conftest files come from the pinned ones only; plugins are not loaded; the ids are those the
root ran, no more and no fewer. Candidate and tests share a process, so what `inline` cannot promise holds here too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.box.base import EVAL, WORK, Box, Boxes, BoxSpec, Command
from harness.errors import ExecTimeoutError, LimitError
from harness.evaluation.channel import Channel, own_names
from harness.evaluation.contract import SEED_VARIABLE
from harness.evaluation.result import ResultRefusedError, parse_result
from harness.evaluation.split import ended, one_result, stopped
from harness.evaluation.subject import Subject
from harness.records import Outcome, Split, Status
from harness.tree import File, Tree

SPLIT = "split"
_NO_TESTS = 5  # pytest.ExitCode.NO_TESTS_COLLECTED


@dataclass(frozen=True, slots=True)
class SuiteEvaluation:
    """One box a rollout: the candidate at /work, the tests of the subject and of the split at /eval."""

    subject: Subject
    boxes: Boxes
    spec: BoxSpec

    async def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """See `Evaluation`."""
        tests, channel = self._tests(split), Channel()
        async with self.boxes.open(self.spec) as box:
            await box.put(tree.entries(), WORK)
            await channel.put_programs(box, tests)
            try:
                done = await box.exec(channel.command("suite.py", self._words(split), self._command(seed)))
                outcome = ended(done)
                if done.exit_code == _NO_TESTS:
                    return replace(outcome, detail=f"{outcome.detail}no test ran; a module that skips itself has none")
                if outcome.status is not Status.OK:
                    return outcome
                return await self._read(box, channel, tests, outcome)
            except (ExecTimeoutError, LimitError) as error:
                return stopped(error)

    async def _read(self, box: Box, channel: Channel, tests: Tree, outcome: Outcome) -> Outcome:
        settings = self.subject.file.eval
        try:
            produced = await channel.result(box)
            await channel.check_locked(box, tests)
            result = parse_result(one_result(produced), metric=settings.metric, allowed=settings.range)
        except ResultRefusedError as error:
            return replace(outcome, status=Status.AGENT_ERROR, detail=f"no score: {error}")
        return replace(outcome, score=result.score, items=result.items)

    def _tests(self, split: Split) -> Tree:
        """What lies at /eval: the tests of every split, and this split's own under a name that says nothing."""
        files: dict[str, File] = dict(self.subject.scorer)
        data = self.subject.splits.get(split)
        if data is not None:
            files |= {f"{SPLIT}/{path}": file for path, file in data.inputs.items()}
        return Tree(files)

    def _words(self, split: Split) -> list[str]:
        """Hidden splits ask their own tests alone, so that what is known beforehand says nothing there."""
        settings = self.subject.file.eval
        tops = {path.split("/")[0] for path in self.subject.scorer} if split is Split.VISIBLE else set[str]()
        if split in self.subject.splits:
            tops.add(SPLIT)
        places = [f"{EVAL}/{top}" for top in sorted(tops)]
        return [EVAL, WORK, ",".join(own_names(self.subject, "")), settings.metric, settings.direction, *places]

    def _command(self, seed: int) -> Command:
        settings = self.subject.file.eval
        return Command(("python",), settings.timeout_s, WORK, {**settings.env, SEED_VARIABLE: str(seed)})
