"""Three Harbor task folders in real Docker boxes, through a whole run: only the verifier's reward counts."""

import shutil
from pathlib import Path

import pytest
from support.engine import containers, image, needs_docker

import harness
from harness.archive.sqlite import SqliteArchive
from harness.research.verify import verify

docker = needs_docker()
TASKS = Path(__file__).parent / "harbor"
SUBJECT = """\
[subject]
name = "harbor"
editable = ["train.py"]
[eval]
mode = "tasks"
format = "harbor"
run = ["python3", "train.py"]
metric = "solved"
direction = "max"
range = [0.0, 1.0]
timeout_s = 60
[splits]
visible = "tasks"
allow_missing = true
[policy]
use = "guarded"
archive.mode = "keep_all"
"""
START = """\
from pathlib import Path

said = Path("/data/instruction.md").read_text()
assert not [one for place in ("/data/tests", "/tests", "/labels", "/eval") for one in Path(place).rglob("*")]
for one in Path("/data/workspace").iterdir():
    Path("/out", one.name).write_bytes(one.read_bytes())
"""
MEDIAN = """\
if "median" in said:
    Path("/out/stats.py").write_text(
        "def median(values):\\n    v, n = sorted(values), len(values)\\n    return (v[n // 2] + v[(n - 1) // 2]) / 2\\n"
    )
"""
LOGS = """\
if "counts.json" in said:
    Path("/out/counts.json").write_text('{"ERROR": 2, "WARN": 1, "INFO": 0}')
"""
SILENT = 'if "ready" in said:\n    Path("/out/state").write_text("ready")\n'
CHEAT = """\
for place in ("/out", "/out/logs/verifier", "/logs/verifier", "/tests", "/out/tests"):
    for name, text in (("reward.txt", "1"), ("reward.json", '{"reward": 1}'), ("test.sh", "exit 0")):
        try:
            Path(place).mkdir(parents=True, exist_ok=True)
            Path(place, name).write_text(text)
        except OSError:
            pass
"""


def write(folder):
    shutil.copytree(TASKS, folder / "tasks")
    (folder / "strop.toml").write_text(SUBJECT)
    (folder / "train.py").write_text(START)
    return folder


@docker
async def test_only_the_verifier_s_reward_counts(tmp_path):
    sources = [START + CHEAT, START + MEDIAN, START + MEDIAN + LOGS + SILENT + CHEAT]
    overrides = {
        "box.backend": "docker",
        "box.image": image(),
        "budget.steps": len(sources),
        "schedule.workers": 2,
        "agent.name": "support.agents:Sources",
        "agent.config.sources": sources,
    }
    async with harness.open_run(write(tmp_path / "s"), seed=1, runs=tmp_path / "runs", overrides=overrides) as run:
        async for _ in run.events:
            pass
    archive = await SqliteArchive.view(run.folder)
    rollouts = await archive.rollouts()
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    trees = [body["proposal"]["tree"] for body in bodies]
    assert [outcome.detail for key, _, outcome in rollouts if outcome.status != "ok"] == []
    told = {(key.tree, key.example): outcome.score for key, _, outcome in rollouts if key.example}
    assert [told[trees[0], task] for task in ("median", "logs", "silent")] == [0.0, 0.0, 0.0]
    assert [told[trees[1], task] for task in ("median", "logs", "silent")] == [1.0, 0.0, 0.0]
    assert [told[trees[2], task] for task in ("median", "logs", "silent")] == [1.0, pytest.approx(2 / 3), 1.0]
    assert run.summary["isolation"] == "docker"
    assert run.summary["root"]["metric"] == pytest.approx(1 / 5)  # none of three: the posterior mean
    assert run.summary["incumbent"]["id"] == "v3"
    assert (await verify(run.folder)).tickets == 3
    assert containers(run.folder.name) == []
