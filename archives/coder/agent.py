"""A small coding agent that can edit itself: `agent.py solve` does a task, `agent.py edit` changes the code in /out.

It asks the model, does what the reply says, shows what came of it, until the model is done. A reply that is one block
of code and no tool is an answer too: that is what a small model can write.
"""

import json
import os
import sys
from pathlib import Path

from memory import Memory
from model import ask
from pieces import fenced, pick, put, wrong
from prompts import CHANGE, EDIT, LEARN, LESSON, SOLVE
from tools import act

DATA, OUT, RESULT = Path("/data"), Path("/out"), Path("/result")
MAX_STEPS = 8
SHORT = 300
BOLD = 0.7
ANSWERS = {"prompt.py": "solution.py", "task.json": "answer.txt"}
NOTHING = "Nothing was done: use the tools, or <done/>."


def work(memory, folder, block, **how):
    """Talk to the model until it is done. `block` takes a lone block of code and says what is wrong with it, if
    anything, which is told the model once; so is a reply with nothing in it."""
    warned = False
    for _ in range(MAX_STEPS):
        reply = ask(memory.messages(), **how)
        memory.said(reply)
        seen, done = act(reply, folder)
        if not seen and not done:
            code = fenced(reply)
            seen = block(code) if code else NOTHING
            done = warned or not seen
            warned = True
        memory.saw(seen)
        if done:
            break


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

    def answer(code):
        """A lone block is the solution, or the answer to a question."""
        name = next((to for given, to in ANSWERS.items() if (DATA / given).is_file()), None)
        if name is None:
            return NOTHING
        (OUT / name).write_text(code)
        return wrong(code) if name.endswith(".py") else ""

    memory = Memory(SOLVE, task_text())
    work(memory, OUT, answer)
    (OUT / "trace.log").write_text(memory.trace())


def edit():
    """One piece of the code in /out is shown and may be replaced by a lone block; tools may change all of it."""
    problem, claim = (DATA / "problem.md").read_text(), ""
    path, name, piece = pick(OUT, os.environ.get("STROP_SEED", "0")) or (OUT / "agent.py", "agent", "")
    if len(problem) > SHORT:
        lesson = ask(Memory(LESSON, LEARN.format(problem=problem, name=name)).messages(), temperature=BOLD)
        problem = claim = lesson.strip("` \n").partition("\n")[0].removeprefix("Hypothesis:").strip()
    files = ", ".join(sorted(str(one.relative_to(OUT)) for one in OUT.rglob("*") if one.is_file()))
    task = CHANGE.format(name=name, path=path.relative_to(OUT), piece=piece, wish=problem, files=files)
    work(Memory(EDIT, task), OUT, lambda code: put(path, name, code), temperature=BOLD)
    RESULT.mkdir(exist_ok=True)
    (RESULT / "hypothesis.json").write_text(json.dumps({"claim": claim[:300]}))


def smoke():
    """Everything but the model: the tools write, read and run."""
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / "smoke"
    folder.mkdir(exist_ok=True)
    change = '<replace path="a.py"><old>5</old><new>7</new></replace>'
    seen, done = act(f'<write path="a.py">print(6 * 5)</write>\n{change}\n<run>python a.py</run>\n<done/>', folder)
    assert done, seen
    assert "42" in seen, seen
    (folder / "a.py").write_text("A = 6\nB = 5\nprint(A * B)\n")
    assert put(folder / "a.py", "B", fenced("So:\n```python\nB = 7\n```")) == ""
    seen, _ = act("<run>python a.py</run>", folder)
    assert "42" in seen, seen


if __name__ == "__main__":
    {"solve": solve, "edit": edit, "smoke": smoke}[sys.argv[1]]()
