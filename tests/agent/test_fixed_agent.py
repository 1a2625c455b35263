"""The control without self-edit: the root's code does all editing, whoever is edited."""

import json

import pytest

import harness
from harness.archive.sqlite import SqliteArchive
from harness.repo.store import FOLDER_NAME, TreeStore

SUBJECT = """\
[subject]
name = "counter"
editable = ["agent.py"]
[eval]
mode = "tasks"
format = "dataset"
run = ["python", "agent.py", "solve"]
metric = "solved"
direction = "max"
range = [0.0, 1.0]
timeout_s = 20
[splits]
visible = "tasks.jsonl"
allow_missing = true
[editor]
run = ["python", "agent.py", "edit"]
probe = false
timeout_s = 20
[policy]
use = "guarded"
archive.mode = "keep_all"
select.rule = "greedy"
agent.name = "self_edit"
"""
AGENT = """\
import sys
from pathlib import Path
GENERATION = 0
def solve():
    Path("/out/answer.txt").write_text("yes" if GENERATION else "no")
def edit():
    place = Path("/out/agent.py")
    lines = place.read_text().splitlines()
    old = next(row for row in lines if row.startswith("GENERATION"))
    made = sum(row.startswith("MADE_BY") for row in lines)
    lines[lines.index(old)] = f"GENERATION = {int(old.split()[2]) + 1}"
    lines.insert(3, f"MADE_BY_{made} = {GENERATION}")
    place.write_text("\\n".join(lines) + "\\n")
if __name__ == "__main__":
    {"solve": solve, "edit": edit}[sys.argv[1]]()
"""


@pytest.mark.parametrize(("control", "editors"), [("none", [0, 1, 2]), ("fixed_agent", [0, 0, 0])])
async def test_who_edits(tmp_path, control, editors):
    subject = tmp_path / "counter"
    subject.mkdir()
    (subject / "strop.toml").write_text(SUBJECT)
    (subject / "agent.py").write_text(AGENT)
    (subject / "tasks.jsonl").write_text(json.dumps({"id": "a", "question": "?", "answer": "yes"}))
    overrides = {
        "box.backend": "embedded",
        "budget.steps": 3,
        "schedule.workers": 1,
        "archive.control": control,
    }
    async with harness.open_run(subject, seed=0, runs=tmp_path / "runs", overrides=overrides) as run:
        async for _ in run.events:
            pass
    archive = await SqliteArchive.view(run.folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    store = TreeStore(run.folder / FOLDER_NAME)
    await store.view()
    assert [body["parent"] for body in bodies] == ["v0", "v1", "v2"]
    last = (await store.read(bodies[-1]["proposal"]["tree"]))["agent.py"].data.decode()
    made = {row.split()[0]: int(row.split()[2]) for row in last.splitlines() if row.startswith("MADE_BY")}
    assert [made[f"MADE_BY_{place}"] for place in range(3)] == editors
