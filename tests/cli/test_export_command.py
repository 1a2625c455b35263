import subprocess

import anyio
import pytest

ROOT = b"RATE = 0.1\nSTEPS = 100\n"
BEST = b"RATE = 0.6\nSTEPS = 500\n"


@pytest.fixture(autouse=True)
def _here(runs, monkeypatch):
    monkeypatch.setenv("STROP_RUNS", str(runs))


def git(folder, *words):
    environment = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    return subprocess.run(["git", *environment, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_folder(strop, tmp_path):
    said = strop("export", "--to", tmp_path / "better")
    assert said.code == 0
    assert (tmp_path / "better" / "train.py").read_bytes() == BEST
    assert strop("export", "--to", tmp_path / "better").code == 2


def test_another_variant(strop, tmp_path):
    assert strop("export", "last", "--variant", "v0", "--to", tmp_path / "root").code == 0
    assert (tmp_path / "root" / "train.py").read_bytes() == ROOT
    assert strop("export", "--variant", "v99", "--to", tmp_path / "none").code == 2


def test_a_patch_that_git_applies(strop, tmp_path):
    subject = tmp_path / "subject"
    subject.mkdir()
    (subject / "train.py").write_bytes(ROOT)
    assert strop("export", "--patch", tmp_path / "best.patch").code == 0
    git(subject, "apply", tmp_path / "best.patch")
    assert (subject / "train.py").read_bytes() == BEST
    assert strop("export", "--patch", tmp_path / "best.patch").code == 0  # the second morning
    (tmp_path / "best.patch").write_text("mine")
    assert "--force" in strop("export", "--patch", tmp_path / "best.patch").err
    assert strop("export", "--patch", tmp_path / "best.patch", "--force").code == 0
    assert "--force" in strop("export", "--to", tmp_path / "new", "--force").err
    assert strop("export", "--variant", "root", "--patch", tmp_path / "none.patch").code == 2
    assert not (tmp_path / "none.patch").exists()


def test_a_branch_leaves_the_working_tree_alone(strop, tmp_path):
    subject = tmp_path / "subject"
    subject.mkdir()
    (subject / "train.py").write_bytes(ROOT)
    git(subject, "init", "-q")
    git(subject, "add", ".")
    git(subject, "commit", "-qm", "start")
    assert strop("export", "--branch", "strop/best", "--repo", subject).code == 0
    assert git(subject, "show", "strop/best:train.py").encode() == BEST
    assert "error 0.25 -> 0.125" in git(subject, "log", "-1", "--format=%s", "strop/best")
    assert git(subject, "status", "--porcelain") == ""
    assert (subject / "train.py").read_bytes() == ROOT
    assert strop("export", "--branch", "strop/best", "--repo", subject).code == 2


@pytest.mark.parametrize("words", [[], ["--to", "a", "--patch", "b"], ["--branch", "b"]])
def test_it_must_be_said_where_to(strop, words):
    said = strop("export", *words)
    assert said.code == 2
    assert "mend:" in said.err


def test_where_nothing_was_kept_the_log_is_next(strop, tmp_path, build, monkeypatch):
    monkeypatch.setenv("STROP_RUNS", str(tmp_path / "none"))
    anyio.run(lambda: build(tmp_path / "none" / "flat", tickets=0))
    assert "next      strop log flat  # nothing was kept" in strop("status").out
    for words in (["--patch", tmp_path / "a.patch"], ["--branch", "b", "--repo", tmp_path]):
        said = strop("export", *words)
        assert said.code == 2
        assert "nothing was kept" in said.err
        assert "strop log flat" in said.err
    assert strop("log").code == 0
