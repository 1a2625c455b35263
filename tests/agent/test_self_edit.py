"""What a self-editing agent is shown of its failures: its own visible traces, the root's too, and nothing hidden."""

import json

import harness
from harness.archive.sqlite import SqliteArchive
from harness.repo.store import FOLDER_NAME, TreeStore

SUBJECT = """\
[subject]
name = "diarist"
editable = ["*.py", "*.md"]
[eval]
mode = "tasks"
format = "dataset"
run = ["python", "agent.py", "solve"]
metric = "solved"
direction = "max"
range = [0.0, 1.0]
timeout_s = 20
[splits]
visible = "visible.jsonl"
holdout = "holdout.jsonl"
vault = "vault.jsonl"
[editor]
run = ["python", "agent.py", "edit"]
timeout_s = 20
[policy]
use = "guarded"
archive.mode = "keep_all"
select.rule = "uniform"
agent.name = "self_edit"
"""
AGENT = """\
import json, sys
from pathlib import Path
GENERATION = 0
def solve():
    task = json.loads(Path("/data/task.json").read_text())
    Path("/out/trace.log").write_text(f"I saw {task['question']}, tool error: none such")
    if task["id"].endswith("dies"):
        sys.exit(3)
    Path("/out/answer.txt").write_text("yes" if GENERATION else "no")
def edit():
    place = Path("/out/agent.py")
    if not place.exists():
        Path("/out/NOTES.py").write_text("# checked")
        return
    place.write_text(place.read_text().replace(f"GENERATION = {GENERATION}", f"GENERATION = {GENERATION + 1}", 1))
    diary = Path("/out/diary.md")
    diary.write_text(diary.read_text() + Path("/data/problem.md").read_text())
if __name__ == "__main__":
    {"solve": solve, "edit": edit}[sys.argv[1]]()
"""


async def test_an_agent_is_told_of_visible_traces_and_never_of_hidden_ones(tmp_path):
    subject = tmp_path / "diarist"
    subject.mkdir()
    (subject / "strop.toml").write_text(SUBJECT)
    (subject / "agent.py").write_text(AGENT)
    (subject / "diary.md").write_text("")
    for split in ("visible", "holdout", "vault"):
        rows = [{"id": f"{split}-{n}", "question": f"{split}-question-{n}", "answer": "yes"} for n in ("one", "dies")]
        (subject / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    overrides = {"box.backend": "embedded", "budget.steps": 6, "schedule.workers": 1}
    async with harness.open_run(subject, seed=1, runs=tmp_path / "runs", overrides=overrides) as run:
        async for _ in run.events:
            pass
    archive = await SqliteArchive.view(run.folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    assert run.summary["holdout"]["queries"]
    store = TreeStore(run.folder / FOLDER_NAME)
    await store.view()
    diaries = [(await store.read(body["proposal"]["tree"]))["diary.md"].data.decode() for body in bodies]
    assert bodies[0]["parent"] == "v0"
    assert "visible-question-" in diaries[0]  # the root's own trace, though it was run as a whole
    crashed = [text for text in diaries if "How it ended: agent_error" in text]
    assert crashed
    assert all("exit code 3" in text and "I saw visible-question-dies" in text for text in crashed)
    kinds = {body["proposal"]["memo"]["diagnosis"] for body in bodies}
    assert {"unresolved", "tools"} <= kinds
    for text in diaries:
        assert "holdout" not in text
        assert "vault" not in text
