import json
import tomllib

import pytest
from typer.testing import CliRunner

from harness.cli.app import app
from harness.policy.load import load_subject

INLINE = [
    *("--mode", "inline", "--editable", "train.py", "--metric", "loss", "--direction", "min", "--result", "stdout"),
    *("--run", "python 'train me.py' --fast"),
]


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "train.py").write_text("print('loss: 0.5')\n")
    return folder


PROGRAM = """\
# program
- `prepare.py` holds the evaluation. Do not modify.
- Modify `train.py`: this is the only file you edit.
You launch it simply as: `uv run train.py`.
The goal is simple: get the lowest val_bpb.
Run it: `uv run train.py > run.log 2>&1`
If a run exceeds 10 minutes, kill it.
"""
TRAIN = """\
from prepare import evaluate_bpb
for step in range(3):
    print(f"loss: {step}")
val_bpb = evaluate_bpb()
print(f"val_bpb:          {val_bpb:.6f}")
print("seconds: %.1f" % 3)
"""


@pytest.fixture
def autoresearch(project):
    (project / "program.md").write_text(PROGRAM)
    (project / "prepare.py").write_text("def evaluate_bpb():\n    return 1.0\n")
    (project / "train.py").write_text(TRAIN)
    return project


def written(folder):
    return tomllib.loads((folder / "strop.toml").read_text())


def test_flags_make_a_file_that_the_loader_takes(strop, project):
    said = strop("init", project, *INLINE, "--name", 'toy "1" é', "--range", "0,2")
    assert said.code == 0
    loaded = load_subject(project)
    assert loaded.file.subject.name == 'toy "1" é'
    assert loaded.file.eval.run == ("python", "train me.py", "--fast")
    assert loaded.file.eval.range == (0.0, 2.0)
    assert loaded.policy.name == "guarded"


def test_without_a_terminal_every_missing_flag_is_named_and_nothing_written(strop, project):
    said = strop("init", project, "--metric", "loss")
    assert said.code == 2
    for flag in ("--mode", "--editable", "--run", "--direction", "--result", "--score", "--visible"):
        assert flag in said.err
    assert "--metric" not in said.err
    said = strop("init", project, "--mode", "split", "--editable", "train.py", "--run", "x", "--metric", "m")
    assert "--direction --score --visible --holdout --vault" in said.err
    assert sorted(path.name for path in project.iterdir()) == ["train.py"]


def test_an_autoresearch_folder_is_recognised_out_loud(strop, autoresearch):
    said = strop("init", autoresearch)
    assert said.code == 0
    for reason in (
        "train.py imports prepare (line 1) and prints its own val_bpb (line 5)",
        "program.md, line 3, names it as the only file to edit",
        "program.md, line 4: 'uv run train.py', without uv",
        "program.md's goal, line 5; train.py prints it, line 5",
        "program.md, line 5, wants val_bpb lower",
        "program.md, line 7: 'exceeds 10 minutes'",
        "train.py prints val_bpb, line 5",
    ):
        assert reason in said.out
    found = written(autoresearch)
    assert found["subject"] == {"name": "my project", "editable": ["train.py"]}
    assert found["eval"] == {
        "mode": "inline",
        "run": ["python", "train.py"],
        "metric": "val_bpb",
        "direction": "min",
        "timeout_s": 600.0,
        "result": "stdout",
    }
    assert load_subject(autoresearch).file.eval.mode == "inline"


def test_flags_win_over_what_is_recognised(strop, autoresearch):
    assert strop("init", autoresearch, "--timeout", "30", "--direction", "max").code == 0
    assert written(autoresearch)["eval"]["timeout_s"] == 30.0
    assert written(autoresearch)["eval"]["direction"] == "max"


def test_what_was_read_of_one_metric_says_nothing_of_another(strop, autoresearch):
    said = strop("init", autoresearch, "--metric", "val_loss")
    assert said.code == 2
    assert "--mode --direction" in said.err
    assert "val_bpb" not in said.out


def test_the_mode_split_takes_nothing_that_was_read(strop, autoresearch):
    said = strop("init", autoresearch, "--mode", "split")
    assert (said.code, said.out) == (2, "")


@pytest.mark.parametrize(
    ("file", "old", "new", "flag"),
    [
        ("train.py", "from prepare import evaluate_bpb", "evaluate_bpb = float", "--mode"),
        ("train.py", "val_bpb:  ", "no bits:  ", "--metric"),
        ("train.py", "val_bpb = evaluate", "if val_bpb = evaluate", "--metric"),
        ("train.py", 'print(f"val_bpb', 'for _ in range(2): print(f"val_bpb', "--metric"),
        ("program.md", "lowest val_bpb", "best val_bpb", "--direction"),
        ("program.md", "Run it: `uv run train.py ", "Run it: `uv run train.py --fast ", "--run"),
        ("program.md", "uv run train.py", "make", "--run"),
        ("program.md", "this is the only file you edit", "with care", "--editable"),
        ("program.md", "only file you edit", "only file you do not edit", "--editable"),
    ],
)
def test_what_no_line_says_is_asked_and_never_guessed(strop, autoresearch, file, old, new, flag):
    text = (autoresearch / file).read_text()
    assert old in text
    (autoresearch / file).write_text(text.replace(old, new))
    said = strop("init", autoresearch)
    assert said.code == 2
    assert flag in said.err
    assert flag.removeprefix("--") not in [row.split()[0] for row in said.out.splitlines()]
    assert not (autoresearch / "strop.toml").exists()


def test_another_metric_and_direction_are_read_from_the_goal(strop, autoresearch):
    (autoresearch / "program.md").write_text(
        PROGRAM.replace("get the lowest val_bpb", "get the highest score").replace("exceeds 10 m", "exceeds 6 m")
    )
    (autoresearch / "train.py").write_text(TRAIN.replace("val_bpb:  ", "score:    "))
    assert strop("init", autoresearch).code == 0
    found = written(autoresearch)["eval"]
    assert (found["metric"], found["direction"], found["timeout_s"]) == ("score", "max", 360.0)


def test_an_existing_file_is_never_touched(strop, project):
    (project / "strop.toml").write_text("mine")
    said = strop("init", project, *INLINE)
    assert said.code == 2
    assert "never overwrites" in said.err
    assert (project / "strop.toml").read_text() == "mine"


def test_a_dangling_link_is_not_written_through(strop, project, tmp_path):
    (project / "strop.toml").symlink_to(tmp_path / "elsewhere")
    assert strop("init", project, *INLINE).code == 2
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "change",
    [
        ["--editable", "nothing*.py"],
        ["--editable", "../train.py"],
        ["--editable", "/etc/passwd"],
        ["--metric", "a b"],
        ["--direction", "down"],
        ["--mode", "both"],
        ["--result", "stderr"],
        ["--range", "1"],
        ["--range", "2,1"],
        ["--range", "nan,1"],
        ["--timeout", "0"],
        ["--timeout", "inf"],
        ["--run", "python 'train"],
        ["--run", ""],
        ["--score", "python score.py"],
        ["--visible", "data/none"],
    ],
)
def test_bad_values_are_refused_with_a_mend_and_nothing_is_written(strop, project, change):
    said = strop("init", project, *INLINE, *change)
    assert said.code == 2
    assert "mend:" in said.err
    assert sorted(path.name for path in project.iterdir()) == ["train.py"]


def test_no_such_folder(strop, tmp_path):
    assert strop("init", tmp_path / "none").code == 2


def test_on_a_terminal_it_asks_for_what_is_missing(project, monkeypatch):
    monkeypatch.setattr("harness.cli.init.on_terminal", lambda: True)
    answers = "inline\ntrain.py\npython train.py\nloss\nsideways\nmin\nstdout\n"
    result = CliRunner().invoke(app, ["init", str(project)], input=answers)
    assert result.exit_code == 0, result.output
    assert "is not one of min, max" in result.output
    assert written(project)["eval"]["direction"] == "min"


def test_a_split_project(strop, project):
    for split in ("visible", "holdout", "vault"):
        for part in ("inputs", "labels"):
            (project / "data" / split / part).mkdir(parents=True)
            (project / "data" / split / part / "x.json").write_text(json.dumps([1]))
    (project / "score.py").write_text("")
    words = ["--mode", "split", "--editable", "train.py", "--metric", "error", "--direction", "min"]
    words += ["--visible", "data/visible", "--holdout", "data/holdout", "--vault", "data/vault"]
    words += ["--run", "python train.py"]
    assert strop("init", project, *words, "--score", "python score.py").code == 0
    assert load_subject(project).file.splits.vault == "data/vault"
