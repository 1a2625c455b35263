"""The main job through the command line, on a subject that takes milliseconds, without isolation to be quick."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import StorageError

TRAIN = """\
RATE = 0.5
STEPS = 40
loss = abs(RATE - 0.2) + 1 / STEPS
print(f"loss: {loss:.6f}")
"""
SLOW = "import time\ntime.sleep(0.2)\n"
SUBJECT = """\
[subject]
name = "toy"
editable = ["train.py"]
[eval]
mode = "inline"
run = ["python", "train.py"]
metric = "loss"
direction = "min"
result = "stdout"
[splits]
allow_missing = true
"""


@pytest.fixture
def subject(tmp_path: Path) -> Path:
    folder = tmp_path / "my subject é"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "strop.toml").write_text(SUBJECT)
    return folder


def words(subject, *more):
    return ["run", subject, "--box", "process", "--seed", "3", "--workers", "2", *more]


def test_a_run_from_start_to_page(strop, subject):
    said = strop(*words(subject, "--steps", "6"))
    assert said.code == 0, said.err
    assert "box process (no isolation)" in said.out
    assert "[6/6]" in said.out
    for label in ("root", "best", "verdicts", "holdout", "vault", "cost", "report", "diff", "next"):
        assert f"\n{label}" in said.out
    summary = json.loads(strop("status", "--json").out)
    assert summary["state"] == "finished"
    assert summary["steps"] == {"done": 6, "limit": 6}
    assert "candidate code ran as the user" in Path(summary["report"]).read_text()
    assert strop("verify").code == 0
    assert strop("log", "--tsv").out.startswith("commit\tloss\t")
    assert strop("resume").code == 2


def test_the_same_seed_is_the_same_run(strop, subject):
    heads = []
    for _ in range(2):
        said = strop(*words(subject, "--steps", "4", "--json"))
        heads.append(json.loads(said.out)["ledger_head"])
    assert heads[0] == heads[1]


def test_json_events_are_nothing_but_json(strop, subject):
    said = strop(*words(subject, "--steps", "2", "--json-events"))
    events = [json.loads(line) for line in said.out.splitlines()]
    assert events[0]["event"] == "RunStarted"
    assert events[-1]["event"] == "RunFinished"
    assert events[-1]["summary"]["state"] == "finished"


@pytest.mark.parametrize(
    "more",
    [
        ["--set", "budget.stepz=3"],
        ["--set", "nonsense"],
        ["--wall", "soon"],
        ["--policy", "nothing"],
        ["--agent", "nobody"],
        ["--steps", "0"],
        ["--workers", "0"],
        ["--set", "budget.wall_s=nan"],
        ["--json", "--json-events"],
    ],
)
def test_bad_input_is_2_and_leaves_nothing(strop, subject, tmp_path, more):
    said = strop(*words(subject, *more))
    assert said.code == 2, said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / ".strop").exists()


def test_ctrl_c_drains_and_resume_goes_on(strop, subject, tmp_path):
    (subject / "train.py").write_text(SLOW + TRAIN)
    argv = [sys.executable, "-P", "-c", "from harness.cli import main; main()"]
    argv += [str(word) for word in words(subject, "--steps", "12", "--plain")]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("[ 1/12]"):
                os.kill(process.pid, signal.SIGINT)
                break
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopping when the tickets in flight are done" in out
    assert "\nnext      strop resume" in out
    done = json.loads(strop("status", "--json").out)["steps"]["done"]
    assert 1 <= done <= 6
    said = strop("resume", "--set", "gate.alpha=0.5")
    assert (said.code, said.out) == (2, "")
    assert "gate.alpha: a run that goes on keeps its policy" in said.err
    assert "what may grow: budget.steps, budget.rollouts" in said.err
    said = strop("resume", "--quiet", "--set", "budget.steps=13")
    assert said.code == 0, said.err
    assert json.loads(strop("status", "--json").out)["steps"] == {"done": 13, "limit": 13}
    assert "steps raised from 12 to 13 after ticket" in strop("status").out
    assert strop("verify").code == 0


def test_a_run_outlives_the_reader_of_its_log(strop, subject, tmp_path):
    argv = [sys.executable, "-P", "-c", "from harness.cli import main; main()"]
    argv += [str(word) for word in words(subject, "--steps", "4", "--plain")]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        assert process.wait(timeout=60) == 0
    assert err == ""
    assert json.loads(strop("status", "--json").out)["state"] == "finished"


@pytest.mark.parametrize("out", [">&-", "> /dev/full", "> /dev/full 2>&1", ">&- 2>&-", "-q >&-"])
def test_a_run_outlives_an_output_that_nothing_can_be_written_to(strop, subject, tmp_path, out):
    argv = [sys.executable, "-P", "-c", "from harness.cli import main; main()"]
    argv += [str(word) for word in words(subject, "--steps", "2", "--plain")]
    line = ["sh", "-c", f"{shlex.join(argv)} {out}"]
    done = subprocess.run(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert "fault" not in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(strop("status", "--json").out)["state"] == "finished"


def test_a_run_whose_report_cannot_be_written_still_ends_with_its_summary(strop, subject, monkeypatch):
    async def full(folder, to):
        raise StorageError(folder, reason="No space left on device")

    monkeypatch.setattr("harness.report.html.write_report", full)
    said = strop(*words(subject, "--steps", "1"))
    assert said.code == 0, said.err
    assert "\nvault " in said.out
    assert "no report: cannot write" in said.err


def test_workers_of_nothing_name_the_flag_and_nan_is_no_number(strop, subject):
    assert "--workers: must be at least 1" in strop(*words(subject, "--workers", "0")).err
    assert "not a number" in strop(*words(subject, "--set", "budget.wall_s=nan")).err


def test_what_is_not_committed_is_said_and_kept_for_the_report(strop, subject):
    def git(*argv):
        identity = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
        subprocess.run(["git", *identity, *argv], cwd=subject, check=True, capture_output=True)

    git("init", "-q")
    git("add", "train.py")
    git("commit", "-q", "-m", "first")
    (subject / "train.py").write_text(TRAIN + "# more\n")
    (subject / "notes.txt").write_text("")
    said = strop(*words(subject, "--steps", "1"))
    assert said.code == 0, said.err
    told = "1 file with uncommitted changes: the root has them as they lie there (train.py)"
    assert f"strop: {told}; 1 file or folder not tracked by git and left out (notes.txt)\n" in said.err
    assert f"\ntree      {told}" in said.out
    summary = json.loads(strop("status", "--json").out)
    assert summary["uncommitted"]["counts"] == {"changed": 1, "untracked": 1}
    assert told in Path(summary["report"]).read_text()


def test_a_runs_folder_that_cannot_be_made_speaks_of_no_resume(strop, subject, tmp_path):
    (tmp_path / "file").write_text("")
    said = strop(*words(subject, "--runs", tmp_path / "file" / "runs"))
    assert said.code == 3
    assert "no run was begun" in said.err
    assert "resume" not in said.err
