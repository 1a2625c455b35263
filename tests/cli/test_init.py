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


@pytest.fixture
def autoresearch(project):
    (project / "program.md").write_text("# program\n")
    (project / "prepare.py").write_text("\n")
    (project / "train.py").write_text('print(f"val_bpb:          {val_bpb:.6f}")\n')
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
    assert "train.py prints it" in said.out
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
    assert strop("init", autoresearch, "--metric", "val_loss", "--timeout", "30").code == 0
    assert written(autoresearch)["eval"]["metric"] == "val_loss"
    assert written(autoresearch)["eval"]["timeout_s"] == 30.0
    assert written(autoresearch)["eval"]["direction"] == "min"


def test_an_autoresearch_folder_that_does_not_print_its_metric_is_not_guessed_at(strop, autoresearch):
    (autoresearch / "train.py").write_text("print('done')\n")
    said = strop("init", autoresearch)
    assert said.code == 2
    assert "--metric --direction --result" in said.err
    assert not (autoresearch / "strop.toml").exists()


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
