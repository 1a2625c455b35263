"""What a run's root has beside the last commit, told without running anything of the repository's."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from harness.repo.uncommitted import uncommitted, untracked_match


def git(folder: Path, *argv: str) -> None:
    identity = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
    subprocess.run(["git", *identity, *argv], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def subject(tmp_path: Path) -> Path:
    folder = tmp_path / "top" / "my subject é"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("RATE = 1\n")
    (folder / "gone.py").write_text("\n")
    git(tmp_path / "top", "init", "-q")
    git(tmp_path / "top", "add", ".")
    git(tmp_path / "top", "commit", "-q", "-m", "first")
    return folder


def test_a_clean_folder_has_nothing_to_tell(subject):
    found = uncommitted(subject)
    assert found is not None
    assert (found.changed, found.untracked) == ((), ())


def test_changes_and_untracked_files_are_named_from_the_folder(subject):
    (subject / "train.py").write_text("RATE = 2\n")
    (subject / "gone.py").unlink()
    (subject / "data").mkdir()
    (subject / "data" / "x.csv").write_text("1\n")
    (subject / "strop.toml").write_text("")
    (subject / "__pycache__").mkdir()
    (subject / "__pycache__" / "x.pyc").write_text("")
    (subject.parent / "elsewhere.py").write_text("")
    found = uncommitted(subject, own=("strop.toml",))
    assert found is not None
    assert sorted(found.changed) == ["gone.py", "train.py"]
    assert found.untracked == ("data/",)
    assert found.as_json()["counts"] == {"changed": 2, "untracked": 1}


def test_without_a_repository_or_a_tracked_file_everything_counts(tmp_path):
    (tmp_path / "train.py").write_text("")
    assert uncommitted(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert uncommitted(tmp_path) is None


def test_no_filter_of_the_repository_is_run(subject, tmp_path):
    (subject / ".gitattributes").write_text("*.py filter=evil\n")
    for kind in ("clean", "process"):
        git(subject, "config", f"filter.evil.{kind}", f"touch '{tmp_path}/ran'")
    (subject / "train.py").write_text("RATE = 3\n")
    found = uncommitted(subject)
    assert found is not None
    assert "train.py" in found.changed
    assert not (tmp_path / "ran").exists()


def test_a_file_that_a_glob_means_and_git_does_not_track_is_found(tmp_path):
    run = partial(git, tmp_path)
    run("init", "-q")
    (tmp_path / "other.py").write_text("")
    assert untracked_match(tmp_path, "*.py") == ""  # git tracks nothing here: files are taken as they lie
    run("add", "other.py")
    (tmp_path / "train.py").write_text("")
    assert untracked_match(tmp_path, "train.py") == "train.py"
    assert untracked_match(tmp_path, "none*.py") == ""
