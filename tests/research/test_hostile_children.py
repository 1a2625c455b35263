"""Children that break themselves, or would rather not be judged: each ends as a record, and none as a parent."""

import json

import harness
from harness.archive.sqlite import SqliteArchive
from harness.research.verify import verify

SUBJECT = """\
[subject]
name = "hostile"
editable = ["agent.py"]
[eval]
mode = "tasks"
format = "dataset"
run = ["python", "agent.py", "solve"]
metric = "solved"
direction = "max"
range = [0.0, 1.0]
timeout_s = 6
[splits]
visible = "tasks.jsonl"
allow_missing = true
[editor]
run = ["python", "agent.py", "edit"]
imports = ["python", "-c", "import agent"]
timeout_s = 10
[policy]
use = "guarded"
archive.mode = "keep_all"
agent.name = "support.agents:Versions"
"""
AGENT = """\
import json, sys
from pathlib import Path

def solve():
    task = json.loads(Path("/data/task.json").read_text())
    Path("/out/answer.txt").write_text("yes" if task["id"] == "a" else "no")

def edit():
    notes = Path("/out/NOTES.py")
    notes.write_text(notes.read_text() + "# checked\\n")

if __name__ == "__main__":
    {"solve": solve, "edit": edit}[sys.argv[1]]()
"""
OVERWRITES = """\
    for place in ("/data/task.json", "/labels/labels.json", "/eval/exact.py", "/result/result.json"):
        try:
            Path(place).write_text('{"id": "a", "answer": "no", "solved": 1.0}')
        except OSError:
            pass
"""
CHILDREN = {
    "good": AGENT.replace('== "a"', '!= "c"'),
    "no entry point": None,
    "never ends": "while True:\n    pass\n" + AGENT,
    "exits at import": "raise SystemExit(0)\n" + AGENT.replace("def ", "# def "),
    "edits nothing": AGENT.replace('+ "# checked\\n"', ""),
    "removes what it edits": AGENT.replace('notes.write_text(notes.read_text() + "# checked\\n")', "1 / 0"),
    "writes over its tasks": AGENT.replace('    Path("/out/answer', OVERWRITES + '    Path("/out/answer'),
    "sleeps in every task": AGENT.replace("    task = ", "    import time; time.sleep(60)\n    task = "),
    "dies in every task": AGENT.replace("    task = ", "    sys.exit(3)\n    task = "),
}


async def test_every_broken_child_is_recorded_and_no_parent(tmp_path):
    subject = tmp_path / "hostile"
    subject.mkdir()
    (subject / "strop.toml").write_text(SUBJECT)
    (subject / "agent.py").write_text(AGENT)
    (subject / "notes.txt").write_text("locked")
    rows = [{"id": name, "question": name, "answer": "yes"} for name in ("a", "b", "c")]
    (subject / "tasks.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    overrides = {
        "box.backend": "embedded",
        "budget.steps": len(CHILDREN),
        "schedule.workers": 2,
        "agent.config.path": "agent.py",
        "agent.config.versions": ["" if text is None else text for text in CHILDREN.values()],
    }
    async with harness.open_run(subject, seed=0, runs=tmp_path / "runs", overrides=overrides) as run:
        async for _ in run.events:
            pass
    archive = await SqliteArchive.view(run.folder)
    bodies = dict(zip(CHILDREN, [entry.body for entry in await archive.tickets()], strict=True))
    rollouts = {str(key): outcome for key, _, outcome in await archive.rollouts()}
    await archive.aclose()
    verdicts = {name: body["decision"]["verdict"] for name, body in bodies.items()}
    assert verdicts["good"] == "kept"
    assert verdicts["never ends"] == verdicts["sleeps in every task"] == "timed_out"
    why = {name: body["decision"]["reason"] for name, body in bodies.items()}
    assert why["sleeps in every task"].startswith("does not function: no task of 3 came to an end: 3 ran out of time:")
    assert why["dies in every task"].startswith(
        "does not function: no task of 3 came to an end: 3 crashed: exit code 3"
    )
    assert why["never ends"].startswith("does not function: functioning/imports: ")
    for name in ("no entry point", "exits at import", "edits nothing", "removes what it edits", "dies in every task"):
        assert verdicts[name] == "crashed", (name, bodies[name]["decision"]["reason"])
        assert "does not function" in bodies[name]["decision"]["reason"]
    broken = {name for name, verdict in verdicts.items() if verdict in ("crashed", "timed_out")}
    assert not any("member" in bodies[name]["archive"] for name in broken)
    assert not {f"v{place}" for place, name in enumerate(CHILDREN, start=1) if name in broken} & {
        body["parent"] for body in bodies.values()
    }
    # no scored task was run for what failed a check; what overwrote its tasks is judged as if it had not
    for name in broken - {"dies in every task", "sleeps in every task"}:
        assert all("functioning/" in one["key"] for one in bodies[name]["rollouts"])
    told = bodies["writes over its tasks"]["decision"]["evidence"]["stages"]
    assert (told["solved"], told["run"]) == (1.0, 3)
    assert all(outcome is not None for outcome in rollouts.values())
    assert (await verify(run.folder)).tickets == len(CHILDREN)
