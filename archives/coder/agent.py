"""A small coding agent that can edit itself: `agent.py solve` does a task, `agent.py edit` changes the code in /out.

It knows one thing: ask the model, do what the reply says, show what came of it, until the model is done.
"""

import json
import os
import sys
from pathlib import Path

from memory import Memory
from model import ask
from prompts import EDIT, SOLVE
from tools import act

DATA, OUT, RESULT = Path("/data"), Path("/out"), Path("/result")
MAX_STEPS = 8


def work(system, task, folder, steps=MAX_STEPS):
    """Talk to the model until it is done; the trace of what happened."""
    memory = Memory(system, task)
    for _ in range(steps):
        reply = ask(memory.messages())
        memory.said(reply)
        seen, done = act(reply, folder)
        memory.saw(seen)
        if done:
            break
    return memory.trace()


def task_text():
    """The task, whatever format it came in."""
    parts = []
    for path in sorted(DATA.rglob("*")):
        if path.is_file():
            parts.append(f"--- {path.relative_to(DATA)}\n{path.read_text(errors='replace')[:6000]}")
    return "\n".join(parts)


def unpack():
    """What there is to work on goes where it may be changed."""
    workspace = DATA / "workspace"
    for path in sorted(workspace.rglob("*")):
        target = OUT / path.relative_to(workspace)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def solve():
    unpack()
    trace = work(SOLVE, task_text(), OUT)
    (OUT / "trace.log").write_text(trace)


def edit():
    problem = (DATA / "problem.md").read_text()
    files = sorted(str(path.relative_to(OUT)) for path in OUT.rglob("*") if path.is_file())
    trace = work(EDIT, problem + "\nFiles: " + ", ".join(files), OUT)
    claim = next((row[11:] for row in trace.splitlines() if row.lower().startswith("hypothesis:")), "")
    RESULT.mkdir(exist_ok=True)
    (RESULT / "hypothesis.json").write_text(json.dumps({"claim": claim.strip()[:300]}))


def smoke():
    """Everything but the model: the tools write, read and run."""
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / "smoke"
    folder.mkdir(exist_ok=True)
    seen, done = act('<write path="a.py">print(6 * 7)</write>\n<run>python a.py</run>\n<done/>', folder)
    assert done, seen
    assert "42" in seen, seen


if __name__ == "__main__":
    {"solve": solve, "edit": edit, "smoke": smoke}[sys.argv[1]]()
