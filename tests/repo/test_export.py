"""Export: nothing of the user's is overwritten, followed or run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.errors import InputError
from harness.repo.export import origin, write_branch, write_folder, write_patch
from harness.tree import File, Tree

OLD = Tree({"train.py": File(b"x = 1\n"), "d/gone.py": File(b"1\n"), "run.sh": File(b"ls\n", executable=True)})
NEW = Tree({"train.py": File(b"x = 2\n"), "n\u00e9w/a b.py": File(b"2\n", True), "run.sh": File(b"ls\n")})


def git(folder: Path, *argv: str) -> str:
    identity = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
    return subprocess.run(
        ["git", *identity, *argv], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def subject(tmp_path) -> Path:
    """A subject in a folder below the top of its repository, with a hook that would tell on us."""
    top = tmp_path / "my repo"
    folder = top / "sub d\u00e9r"
    folder.mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    (top / "other.txt").write_text("not ours\n")
    write_folder(OLD, folder)
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")
    for hook in ("reference-transaction", "post-commit", "post-index-change"):
        place = top / ".git" / "hooks" / hook
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        place.chmod(0o755)
    return folder


def test_a_folder_holds_the_tree(tmp_path):
    write_folder(NEW, tmp_path / "new" / "place")
    top = tmp_path / "new" / "place"
    assert (top / "train.py").read_bytes() == b"x = 2\n"
    assert os.access(top / "n\u00e9w" / "a b.py", os.X_OK)
    assert not os.access(top / "run.sh", os.X_OK)
    assert sum(path.is_file() for path in top.rglob("*")) == len(NEW)


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        write_folder(NEW, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(InputError, match="cannot be written"):
        write_folder(NEW, tmp_path / "link")
    (tmp_path / "patch").symlink_to(tmp_path / "elsewhere")
    for force in (False, True):
        with pytest.raises(InputError, match="no patch as strop wrote it") as refused:
            write_patch(OLD, NEW, tmp_path / "patch", force=force)
        assert "--force" not in refused.value.mend
    assert not list((tmp_path / "real").iterdir())
    assert not (tmp_path / "elsewhere").exists()


def test_the_patch_applies_in_the_subject_folder(subject, tmp_path):
    here = origin(subject)
    assert here is not None
    write_patch(OLD, NEW, tmp_path / "best.patch", prefix=here.prefix)
    git(subject, "apply", str(tmp_path / "best.patch"))
    assert (subject / "train.py").read_bytes() == b"x = 2\n"
    assert not (subject / "d" / "gone.py").exists()


def test_a_patch_takes_the_place_of_an_earlier_one_that_nobody_touched(subject, tmp_path):
    target = tmp_path / "best.patch"
    write_patch(OLD, NEW, target, says="v1 of\nmonday")
    assert target.read_bytes().startswith(b"Written by strop export: v1 of monday; sha256 ")
    write_patch(NEW, OLD, target, says="v2 of tuesday")
    assert b"v2 of tuesday" in target.read_bytes()
    assert [one.name for one in tmp_path.glob("*best*")] == ["best.patch"]
    write_folder(OLD, tmp_path / "other")
    write_patch(OLD, NEW, target)
    git(tmp_path / "other", "apply", str(target))
    assert (tmp_path / "other" / "train.py").read_bytes() == b"x = 2\n"


@pytest.mark.parametrize("edit", [lambda data: data + b"\n", lambda data: b"", lambda data: b"my notes"])
def test_what_somebody_wrote_is_replaced_only_by_force(tmp_path, edit):
    target = tmp_path / "best.patch"
    write_patch(OLD, NEW, target)
    mine = edit(target.read_bytes())
    target.write_bytes(mine)
    (tmp_path / "best-2.patch").write_text("")
    with pytest.raises(InputError, match="no patch as strop wrote it") as refused:
        write_patch(OLD, NEW, target)
    assert "best-3.patch" in refused.value.mend
    assert target.read_bytes() == mine
    write_patch(OLD, NEW, target, force=True)
    assert target.read_bytes() != mine


def test_a_branch_takes_only_what_differs(subject, tmp_path):
    (tmp_path / "ran").unlink(missing_ok=True)
    (subject / "train.py").write_text("half done\n")
    (subject.parent / "staged.txt").write_text("staged\n")
    git(subject.parent, "add", "staged.txt")
    before = git(subject.parent, "status", "--porcelain"), git(subject.parent, "rev-parse", "HEAD")
    (tmp_path / "ran").unlink(missing_ok=True)
    commit = write_branch(subject, OLD, NEW, branch="strop/best", message="Better\n\nby 3")
    assert not (tmp_path / "ran").exists()
    assert (git(subject.parent, "status", "--porcelain"), git(subject.parent, "rev-parse", "HEAD")) == before
    assert git(subject, "rev-parse", "strop/best") == commit
    assert git(subject, "rev-parse", "strop/best^") == before[1]
    assert git(subject, "log", "-1", "--format=%B|%an", "strop/best") == "Better\n\nby 3|strop"
    listing = git(subject.parent, "-c", "core.quotePath=false", "ls-tree", "-r", "strop/best").splitlines()
    assert {(row.split()[0], row.split("\t")[1]) for row in listing} == {
        ("100644", "other.txt"),
        ("100644", "sub d\u00e9r/train.py"),
        ("100755", "sub d\u00e9r/n\u00e9w/a b.py"),
        ("100644", "sub d\u00e9r/run.sh"),
    }
    assert git(subject, "show", "strop/best:./train.py") == "x = 2"
    git(subject, "fsck", "--strict")


def test_a_branch_stands_on_the_commit_the_root_came_from(subject):
    here = origin(subject)
    assert here is not None
    assert here.prefix == "sub d\u00e9r/"
    (subject / "later.py").write_text("later\n")
    git(subject, "add", "-A")
    git(subject, "commit", "-q", "-m", "later")
    write_branch(subject, OLD, NEW, branch="best", message="m", base=here.commit)
    assert git(subject, "rev-parse", "best^") == here.commit
    assert "later" not in git(subject, "ls-tree", "-r", "--name-only", "best")


@pytest.mark.parametrize("branch", ["main", "main/below", "", "-x", "a..b", "@{-1}", "a b", "x.lock", "a\nb"])
def test_a_branch_that_exists_or_cannot_be_is_refused(subject, branch):
    before = git(subject, "for-each-ref")
    with pytest.raises(InputError):
        write_branch(subject, OLD, NEW, branch=branch, message="m")
    assert git(subject, "for-each-ref") == before


def test_what_cannot_be_a_branch_says_so(subject, tmp_path):
    with pytest.raises(InputError, match="nothing differs"):
        write_branch(subject, OLD, OLD, branch="best", message="m")
    with pytest.raises(InputError, match="not in this repository"):
        write_branch(subject, OLD, NEW, branch="best", message="m", base="f" * 40)
    with pytest.raises(InputError, match="not in this repository"):
        write_branch(subject, OLD, NEW, branch="best", message="m", base="--all")
    (tmp_path / "plain").mkdir()
    assert origin(tmp_path / "plain") is None
    assert origin(tmp_path / "gone") is None
    with pytest.raises(InputError, match="export a folder or a patch"):
        write_branch(tmp_path / "plain", OLD, NEW, branch="best", message="m")
