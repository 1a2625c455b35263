"""Refs move only from where the mover thinks they are, and git reads them as its own."""

from __future__ import annotations

import subprocess

import pytest

from harness.errors import IntegrityError
from harness.repo.refs import RefMovedError, move_ref, read_ref
from harness.repo.store import TreeStore
from harness.tree import File, Tree

REF = "refs/strop/deep/er/x"


def git(folder, *argv) -> str:
    return subprocess.run(["git", *argv], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
async def repository(tmp_path):
    store = TreeStore(tmp_path / "archive.git")
    await store.create()
    ids = [await store.write(Tree({"a": File(bytes([n]))})) for n in range(3)]
    return store.path, ids


def test_a_ref_is_made_moved_and_read_by_git(repository):
    path, (a, b, _) = repository
    assert read_ref(path, REF) is None
    move_ref(path, REF, a, None)
    assert git(path, "rev-parse", REF) == a
    move_ref(path, REF, b, a, durable=False)
    assert read_ref(path, REF) == git(path, "rev-parse", REF) == b
    assert not list(path.rglob("*.lock"))


def test_a_ref_that_is_elsewhere_stays_there(repository):
    path, (a, b, c) = repository
    move_ref(path, REF, a, None)
    for old in (None, c):
        with pytest.raises(RefMovedError, match="not at"):
            move_ref(path, REF, b, old)
    with pytest.raises(RefMovedError, match="is at None"):
        move_ref(path, "refs/strop/new", b, a)
    assert read_ref(path, REF) == a
    assert not list(path.rglob("*.lock"))


def test_a_ref_that_somebody_moves_is_left_to_them(repository):
    path, (a, b, _) = repository
    move_ref(path, REF, a, None)
    lock = path / (REF + ".lock")
    lock.touch()
    with pytest.raises(RefMovedError, match="locked"):
        move_ref(path, REF, b, a)
    assert lock.exists()
    assert read_ref(path, REF) == a


def test_packed_refs_are_read_and_moved(repository):
    path, (a, b, _) = repository
    move_ref(path, REF, a, None)
    git(path, "pack-refs", "--all", "--prune")
    assert not (path / REF).exists()
    assert read_ref(path, REF) == a
    move_ref(path, REF, b, a)
    assert read_ref(path, REF) == git(path, "rev-parse", REF) == b


@pytest.mark.parametrize("content", ["", "ref: refs/heads/main", "f" * 39, "\x00", "f" * 40 + "x"])
def test_a_ref_that_names_no_object_is_an_integrity_error(repository, content):
    path, _ = repository
    (path / "refs/strop/bad").write_text(content)
    with pytest.raises(IntegrityError, match="refs/strop/bad"):
        read_ref(path, "refs/strop/bad")
