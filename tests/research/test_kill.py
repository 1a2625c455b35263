"""`kill -9` at named places and at random times, then resume: the end is that of the uninterrupted run."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest
from support.toy import TRAIN, make_toy

import harness
from harness import summarize
from harness.research.verify import verify
from harness.streams import stream

STEPS, SEED = 12, 11
DRIVER = """
import json, pathlib, sys
import anyio
from harness import open_run, resume_run

def opened(mode, where, runs, workers, name, steps, seed):
    if mode == "resume":
        return resume_run(where)
    settings = {"box.backend": "embedded", "budget.steps": int(steps)}
    return open_run(
        where, seed=int(seed), workers=int(workers), overrides=settings, runs=pathlib.Path(runs), run_id=name
    )

async def main(*words):
    async with opened(*words) as run:
        print("open", flush=True)
        async for _ in run.events:
            pass
    print(json.dumps(dict(run.summary)))

anyio.run(main, *sys.argv[1:])
"""

# Each passage kills one session; the run goes on from there in the next.
PLACES = [
    "rollout-begun:1",
    "rollout-stored:2",
    "root-measured:1",
    "proposed:1",
    "proposal-stored:1",
    "rollout-ran:1",
    "rollout-stored:1",
    "decided:1",
    "committed:1",
    "anchored:1",
    "proposal-stored:2",
    "decided:2",
    "committed:2",
    "rollout-begun:2",
    "anchored:2",
    "archive-uncommitted:4",
    "object-written:2",
    "archive-committed:5",
    "anchor-written:3",
    "stopped:1",
    "rollout-ran:1",
    "vault-measured:1",
]


def start(mode, where, runs, workers, place="", name="r"):
    environment = {**os.environ, "STROP_FAILPOINT": place}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", DRIVER, mode, str(where), str(runs), str(workers), name, str(STEPS), str(SEED)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def summary_of(out):
    return json.loads(out.strip().splitlines()[-1])


async def resume_to_the_end(folder, runs, workers):
    """Resume until the run is finished; a kill after its last write may have left it so already."""
    code, _, err = finish(start("resume", folder, runs, workers))
    assert code == 0 or "is finished" in err, err


def boxes_of(run):
    """Live processes that carry the run's label in their environment or arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if any(word.startswith(f"{run}-") or f"strop-box-{run}-" in word for word in told):
            found.append(process.pid)
    return found


@pytest.fixture(scope="module", params=[1, 2], ids=["one-worker", "two-workers"])
def uninterrupted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    subject = make_toy(folder / "toy")
    code, out, err = finish(start("run", subject, folder / "runs", request.param))
    assert code == 0, err
    return subject, request.param, summary_of(out)


def same_end(summary, whole, folder):
    """The resumed run is the uninterrupted one: same ledger, same counts, nothing paid twice."""
    assert summary["state"] == "finished"
    for key in ("ledger_head", "counts", "root", "incumbent", "holdout", "vault", "rollouts_cited"):
        assert summary[key] == whole[key], key
    assert summary["budget"]["rollouts"]["used"] == whole["budget"]["rollouts"]["used"]


async def test_killed_at_every_named_place(uninterrupted, tmp_path):
    subject, workers, whole = uninterrupted
    folder = tmp_path / "runs" / "r"
    for place in PLACES:
        mode, where = ("resume", folder) if folder.exists() else ("run", subject)
        code, _, err = finish(start(mode, where, tmp_path / "runs", workers, place))
        assert code == -signal.SIGKILL, f"{place}: {err}"
    await resume_to_the_end(folder, tmp_path / "runs", workers)
    same_end(await summarize(folder), whole, folder)
    assert len(PLACES) >= 15
    await verify(folder)


async def test_killed_at_random_times(uninterrupted, tmp_path):
    subject, workers, whole = uninterrupted
    rng = stream(0, "kill", workers)
    run_id = f"killed-{workers}"
    folder = tmp_path / "runs" / run_id
    kills = 0
    for _ in range(40):
        mode, where = ("resume", folder) if (folder / "run.db").exists() else ("run", subject)
        process = start(mode, where, tmp_path / "runs", workers, name=run_id)
        opened = process.stdout.readline()
        deadline = time.monotonic() + float(rng.uniform(0.1, 1.0))
        while opened and process.poll() is None and time.monotonic() < deadline:
            os.sched_yield()
        process.kill()
        process.communicate(timeout=60)
        if process.returncode != -signal.SIGKILL:
            break
        kills += 1
    await resume_to_the_end(folder, tmp_path / "runs", workers)
    same_end(await summarize(folder), whole, folder)
    assert kills >= 3
    assert boxes_of(run_id) == []
    await verify(folder)


def test_every_failpoint_is_died_at_somewhere():
    """A failpoint in the code that no test arms would be a claim without a check."""
    package, tests = Path(harness.__file__).parent, Path(__file__).parent.parent
    named = {name for path in package.rglob("*.py") for name in re.findall(r'failpoint\("([^"]+)"\)', path.read_text())}
    armed = "\n".join(path.read_text() for path in tests.rglob("test_*.py"))
    assert {place.partition(":")[0] for place in PLACES} <= named
    assert [name for name in named if name not in armed] == []


WALL_DRIVER = """
import pathlib, sys
import anyio
from harness import open_run, resume_run
from harness.events import RootMeasured, RunStarted

async def main(mode, where, runs):
    settings = {"box.backend": "embedded", "budget.steps": 1000, "budget.wall_s": 14.0}
    opening = resume_run(where) if mode == "resume" else open_run(
        where, workers=1, overrides=settings, runs=pathlib.Path(runs), run_id="r")
    async with opening as run:
        async for event in run.events:
            if isinstance(event, RootMeasured) or (isinstance(event, RunStarted) and mode == "resume"):
                print("searching", flush=True)

anyio.run(main, *sys.argv[1:])
"""


def test_what_killed_sessions_took_counts_in_full(tmp_path):
    """A supervisor that kills every few seconds does not make the wall budget longer."""
    slow = TRAIN.replace("ids =", "import time; time.sleep(0.2)\nids =")
    subject, runs = make_toy(tmp_path / "toy", train=slow), tmp_path / "runs"
    folder, seen = runs / "r", 0.0

    def session(mode, where):
        words = [sys.executable, "-P", "-c", WALL_DRIVER, mode, str(where), str(runs)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    for mode, where in (("run", subject), ("resume", folder)):
        with session(mode, where) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "searching\n"
            began = time.monotonic()
            time.sleep(1.7)
            seen += time.monotonic() - began if process.poll() is None else 0.0
            process.kill()
            process.wait()
        used = anyio.run(summarize, folder)["budget"]["wall_s"]["used"]
        assert used >= seen
    with session("resume", folder) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0 or "is finished" in err, err
    summary = anyio.run(summarize, folder)
    assert summary["state"] == "finished"
    assert summary["stop"]["reason"] == "wall"
    assert summary["budget"]["wall_s"]["used"] >= used
