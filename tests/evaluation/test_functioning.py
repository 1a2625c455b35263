"""The edit check: whoever cannot change a file any more is broken."""

import pytest

from harness.box.base import BoxSpec
from harness.box.choose import choose
from harness.evaluation.functioning import PROBE, Functioning
from harness.evaluation.subject import Subject
from harness.policy.schema import SubjectFile
from harness.records import Status
from harness.tree import File, Tree

EDITS = {
    "a comment": ("open('/out/NOTES.py', 'a').write('# checked\\n')", ""),
    "a file beside it": ("open('/out/MORE.py', 'w').write('# checked\\n')", ""),
    "nothing": ("pass", "it changed nothing"),
    "an empty file": ("open('/out/MORE.py', 'w')", "it changed nothing"),
    "a link": ("import os; os.symlink('/etc/passwd', '/out/link')", "it changed nothing"),
    "a removal": ("import os; os.remove('/out/NOTES.py')", "it removed it"),
    "an emptied file": ("open('/out/NOTES.py', 'w')", "it removed it"),
    "a failure": ("raise SystemExit(3)", "exit code 3"),
}


@pytest.mark.parametrize("name", EDITS)
async def test_an_edit_must_leave_something_that_was_not_there(name):
    code, said = EDITS[name]
    settings = {"mode": "tasks", "format": "dataset", "run": ["python", "agent.py"], "metric": "solved"}
    file = SubjectFile.model_validate(
        {
            "subject": {"name": "s", "editable": ["agent.py"]},
            "eval": {**settings, "direction": "max", "range": [0, 1], "timeout_s": 30},
            "editor": {"run": ["python", "agent.py"], "timeout_s": 30},
        }
    )
    boxes = choose("embedded")
    await boxes.prepare()
    tree = Tree({"agent.py": File(code.encode())})
    found = await Functioning(Subject(file, tree, Tree(), {}), boxes, BoxSpec(owner="test-functioning")).check(
        tree, PROBE, 1
    )
    assert found.status is (Status.AGENT_ERROR if said else Status.OK)
    assert said in found.detail
