"""Reading the user's own folder: what counts, what is named but not followed, and nothing that is run."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from harness.errors import InputError
from harness.repo.door import Refusal, admit, scan_folder
from harness.repo.scan import Caps
from harness.tree import File, Tree


def lay(folder: Path, *paths: str, data: str = "x\n") -> None:
    for path in paths:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(data)


def git(folder: Path, *argv: str) -> None:
    identity = ["-c", "user.name=me", "-c", "user.email=me@localhost", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *argv], cwd=folder, check=True, capture_output=True)


def names(folder: Path, **options) -> list[str]:
    return [entry.path.decode() for entry in scan_folder(folder, **options)]


def test_a_plain_folder_comes_whole_with_its_modes(tmp_path):
    lay(tmp_path, "train.py", "d/e/f.txt")
    (tmp_path / "train.py").chmod(0o755)
    (tmp_path / "empty").mkdir()
    assert admit(scan_folder(tmp_path)) == Tree({"train.py": File(b"x\n", True), "d/e/f.txt": File(b"x\n")})


def test_ignore_rules_of_a_plain_folder(tmp_path):
    lay(
        tmp_path,
        "a.py",
        "a.log",
        "keep.log",
        "d/a.log",
        "d/local.txt",
        "d/e/local.txt",
        "build/x",
        "d/build/y",
        "z/w.bin",
    )
    lay(tmp_path, "__pycache__/a.pyc", ".venv/bin/python", ".strop/runs/r/run.db", ".hg/x", "d/.DS_Store")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/build/\n# said\n")
    (tmp_path / "d" / ".gitignore").write_text("local.txt\n!a.log\n")
    (tmp_path / "z" / ".gitignore").write_text("*\n!.gitignore\n")
    assert names(tmp_path) == [
        ".gitignore", "a.py", "d/.gitignore", "d/a.log", "d/build/y", "keep.log", "z/.gitignore",
    ]  # fmt: skip
    assert names(tmp_path, ignore=["d/", "z"]) == [".gitignore", "a.py", "keep.log"]


def test_a_repository_gives_what_it_tracks_as_it_is_on_disk(tmp_path):
    lay(tmp_path, "top.txt", "sub/train.py", "sub/gone.py", "sub/d/\u00e9 x.py", "sub/untracked.py", "sub/a.log")
    (tmp_path / ".gitignore").write_text("*.log\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "top.txt", "sub/train.py", "sub/gone.py", "sub/d")
    git(tmp_path, "add", "-f", "sub/a.log")
    (tmp_path / "sub" / "train.py").write_text("edited, not staged\n")
    (tmp_path / "sub" / "gone.py").unlink()
    found = admit(scan_folder(tmp_path / "sub"))
    assert isinstance(found, Tree)
    assert list(found) == ["a.log", "d/\u00e9 x.py", "train.py"]
    assert found["train.py"].data == b"edited, not staged\n"
    assert names(tmp_path / "sub", ignore=["*.log"]) == ["d/\u00e9 x.py", "train.py"]


def test_a_folder_that_a_repository_does_not_track_is_a_plain_one(tmp_path):
    git(tmp_path, "init", "-q")
    lay(tmp_path, "new/train.py", "new/x.log", "new/.gitignore", data="*.log\n")
    assert names(tmp_path / "new") == [".gitignore", "train.py"]


def test_a_submodule_is_refused_by_name(tmp_path):
    lay(tmp_path / "other", "x.py")
    git(tmp_path / "other", "init", "-q")
    git(tmp_path / "other", "add", "-A")
    git(tmp_path / "other", "commit", "-q", "-m", "x")
    lay(tmp_path / "mine", "a.py")
    git(tmp_path / "mine", "init", "-q")
    git(tmp_path / "mine", "submodule", "add", "-q", str(tmp_path / "other"), "vendored")
    git(tmp_path / "mine", "add", "-A")
    found = admit(scan_folder(tmp_path / "mine"))
    assert isinstance(found, Refusal)
    assert {violation.path for violation in found.violations} == {".gitmodules", "vendored"}


def test_links_and_devices_are_named_and_never_followed(tmp_path):
    lay(tmp_path / "outside", "secret.txt")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "outside" / "secret.txt")
    (folder / "folder").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder)
    (folder / "broken").symlink_to("nowhere")
    os.mkfifo(folder / "fifo")
    os.link(tmp_path / "outside" / "secret.txt", folder / "hard")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "socket"))
        kinds = {entry.path.decode(): (entry.kind, entry.data, entry.links) for entry in scan_folder(folder)}
    assert kinds.pop("hard") == ("file", b"x\n", 2)
    assert {name: kind for name, (kind, _, _) in kinds.items()} == {
        "link": "symlink", "folder": "symlink", "loop": "symlink", "broken": "symlink", "fifo": "fifo",
        "socket": "socket",
    }  # fmt: skip
    assert all(data == b"" for _, data, _ in kinds.values())


def test_a_tracked_folder_that_became_a_link_is_not_followed(tmp_path):
    lay(tmp_path / "outside", "secret.txt")
    lay(tmp_path / "mine", "d/secret.txt", "a.py")
    git(tmp_path / "mine", "init", "-q")
    git(tmp_path / "mine", "add", "-A")
    (tmp_path / "mine" / "d" / "secret.txt").unlink()
    (tmp_path / "mine" / "d").rmdir()
    (tmp_path / "mine" / "d").symlink_to(tmp_path / "outside")
    assert b"x\n" not in [entry.data for entry in scan_folder(tmp_path / "mine") if entry.path != b"a.py"]


def test_the_folder_itself_may_be_reached_through_a_link(tmp_path):
    lay(tmp_path / "real", "a.py")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert names(tmp_path / "link") == ["a.py"]


def test_caps_name_what_is_too_much(tmp_path):
    lay(tmp_path, "a.py", "d/e/big.bin", data="x" * 100)
    with pytest.raises(InputError, match=r"big\.bin: larger than 99 bytes"):
        scan_folder(tmp_path, caps=Caps(file_bytes=99), ignore=["a.py"])
    with pytest.raises(InputError, match="more than 1 files"):
        scan_folder(tmp_path, caps=Caps(files=1))
    with pytest.raises(InputError, match="more than 150 bytes"):
        scan_folder(tmp_path, caps=Caps(total_bytes=150))
    with pytest.raises(InputError, match=r"d/e: nested deeper than 2"):
        scan_folder(tmp_path, caps=Caps(depth=2))
    assert len(scan_folder(tmp_path, caps=Caps(depth=3))) == 2


def test_a_name_that_is_not_text_is_refused_by_the_door(tmp_path):
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\x1b"))).write_text("x")
    found = admit(scan_folder(tmp_path))
    assert isinstance(found, Refusal)
    assert found.violations[0].path.isprintable()


@pytest.mark.parametrize("what", ["gone", "file"])
def test_what_is_no_folder_says_so(tmp_path, what):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be read"):
        scan_folder(tmp_path / what)


def test_nothing_of_the_repository_is_run(tmp_path):
    lay(tmp_path, "a.py")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    for key in (
        "core.fsmonitor",
        "core.sshCommand",
        "filter.x.clean",
        "filter.x.smudge",
        "diff.external",
        "core.pager",
    ):
        git(tmp_path, "config", key, str(trap))
    git(tmp_path, "config", "core.hooksPath", str(tmp_path))
    (tmp_path / ".git" / "info" / "attributes").write_text("* filter=x\n")
    (tmp_path / "post-index-change").symlink_to(trap)
    (tmp_path / "ran").unlink(missing_ok=True)
    assert names(tmp_path) == ["a.py"]
    assert not (tmp_path / "ran").exists()
