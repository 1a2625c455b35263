"""Does a child still work? Import, a smoke run, and whether it can still edit code: before any scored task.

Each check is a rollout without a score, so that it is paid for once and kept like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.agent.editing import Order, edit
from harness.box.base import WORK, Boxes, BoxSpec, Command
from harness.errors import ExecTimeoutError, LimitError
from harness.evaluation.contract import SEED_VARIABLE
from harness.evaluation.split import ended, stopped
from harness.evaluation.subject import Subject
from harness.policy.schema import EditorTable
from harness.records import Outcome, Status
from harness.tree import File, Tree

PREFIX = "functioning/"
IMPORTS, SMOKE, PROBE = f"{PREFIX}imports", f"{PREFIX}smoke", f"{PREFIX}edit"
COMPILE = ("python", "-m", "compileall", "-q", ".")
PROBE_PROBLEM = """\
Add a comment line that says `# checked` at the end of the file NOTES.py. Change nothing else.
"""


@dataclass(frozen=True, slots=True)
class Functioning:
    """The checks that a subject declares under `[editor]`."""

    subject: Subject
    boxes: Boxes
    spec: BoxSpec

    async def check(self, tree: Tree, name: str, seed: int) -> Outcome:
        """One check; ok without a score when it passes. Raises InfraError."""
        editor = self.subject.file.editor
        assert editor is not None
        if name == PROBE:
            return await self._can_edit(editor, tree, seed)
        argv = (editor.imports or COMPILE) if name == IMPORTS else editor.smoke
        assert argv is not None
        env = {**self.subject.file.eval.env, SEED_VARIABLE: str(seed)}
        async with self.boxes.open(self.spec) as box:
            await box.put(tree.entries(), WORK)
            if self.spec.link is not None:
                await box.attach(self.spec.link)
            try:
                return ended(await box.exec(Command(argv, self.subject.file.eval.timeout_s, WORK, env)))
            except (ExecTimeoutError, LimitError) as error:
                return stopped(error)

    async def _can_edit(self, editor: EditorTable, tree: Tree, seed: int) -> Outcome:
        """It must change a small folder that is not its own code, through the entry point it edits itself with."""
        before = Tree({"NOTES.py": File(b"NOTE = 1\n")})
        order = Order(editor.run, editor.timeout_s, {**self.subject.file.eval.env, SEED_VARIABLE: str(seed)})
        done = await edit(self.boxes, self.spec, order, editor=tree, tree=before, problem=PROBE_PROBLEM)
        now = {entry.path: entry.data for entry in done.entries if entry.kind == "file"}
        made = {path: data for path, data in now.items() if data and path != b"NOTES.py"}
        kept = now.get(b"NOTES.py", b"")
        if done.status is Status.OK and not made and kept in (b"", before["NOTES.py"].data):
            detail = "asked to edit a file, it changed nothing" if kept else "asked to edit a file, it removed it"
            return Outcome(Status.AGENT_ERROR, detail=detail, wall_s=done.wall_s, cpu_s=done.cpu_s)
        return Outcome(done.status, detail=done.detail, wall_s=done.wall_s, cpu_s=done.cpu_s)


def checks(subject: Subject) -> list[str]:
    """The checks of a subject, in the order they are made."""
    editor = subject.file.editor
    if editor is None:
        return []
    return [IMPORTS, *([SMOKE] if editor.smoke else []), *([PROBE] if editor.probe else [])]
