"""Diffs: the patch is what `git apply` turns the one tree into the other with."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.repo.diff import changed_lines, patch, unified
from harness.repo.lines import MAX_EDITS, changes, split
from harness.tree import File, Tree


def lay(tree: Tree, folder: Path) -> None:
    for path, file in tree.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
        place.chmod(0o755 if file.executable else 0o644)


def read(folder: Path) -> Tree:
    return Tree(
        (str(path.relative_to(folder)), File(path.read_bytes(), bool(path.stat().st_mode & 0o100)))
        for path in folder.rglob("*")
        if path.is_file()
    )


def git(folder: Path, *argv: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(["git", *argv], cwd=folder, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode() + stdin.decode(errors="replace")
    return done.stdout


def applied(old: Tree, new: Tree, *, folder: Path) -> Tree:
    lay(old, folder)
    data = patch(old, new)
    if data:
        git(folder, "apply", "--whitespace=nowarn", "-", stdin=data)
    return read(folder)


LONG = b"".join(b"line %d\n" % n for n in range(100))
CASES = {
    "nothing": (Tree({"a": File(b"1\n")}), Tree({"a": File(b"1\n")})),
    "edit": (Tree({"a": File(LONG)}), Tree({"a": File(LONG.replace(b"line 3\n", b"x\n").replace(b"line 90\n", b""))})),
    "new": (Tree(), Tree({"d/a b.py": File(b"1\n2\n"), "e": File(b"", True)})),
    "gone": (Tree({"a": File(b"1\n"), "b": File(b"")}), Tree({"b": File(b"")})),
    "gone empty": (Tree({"a": File(b"1\n"), "b": File(b"", True)}), Tree({"a": File(b"1\n")})),
    "mode": (Tree({"a": File(b"1\n")}), Tree({"a": File(b"1\n", executable=True)})),
    "mode and edit": (Tree({"a": File(b"1\n", executable=True)}), Tree({"a": File(b"2\n")})),
    "no newline": (Tree({"a": File(b"1\n2")}), Tree({"a": File(b"1\n2\n")})),
    "newline lost": (Tree({"a": File(b"1\n2\n"), "b": File(b"x")}), Tree({"a": File(b"1\n2"), "b": File(b"y")})),
    "to empty": (Tree({"a": File(b"1\n")}), Tree({"a": File(b"")})),
    "binary": (Tree({"a": File(b"\0" + bytes(range(256)) * 9)}), Tree({"a": File(b"\0x"), "n": File(b"\0" * 3000)})),
    "binary gone": (Tree({"a": File(b"\0"), "b": File(b"\0", True)}), Tree({"a": File(b"text\n", True)})),
    "names": (
        Tree({"\u00e9 \u65e5/x\"y'": File(b"1\n"), "a b": File(b"1\n")}),
        Tree({"\u00e9 \u65e5/x\"y'": File(b"2\n"), "a b": File(b"2\n"), "\U0001f40d": File(b"\0")}),
    ),
    "returns": (Tree({"a": File(b"1\r\n2\r3\r\n")}), Tree({"a": File(b"1\r\n2\r4\n\x0c\x1c\xff\n")})),
}


@pytest.mark.parametrize("name", CASES)
def test_git_applies_the_patch(tmp_path, name):
    old, new = CASES[name]
    assert applied(old, new, folder=tmp_path) == new


@pytest.mark.parametrize("name", CASES)
def test_the_patch_is_what_a_repository_with_the_old_tree_takes(tmp_path, name):
    old, new = CASES[name]
    git(tmp_path, "init", "-q")
    lay(old, tmp_path)
    git(tmp_path, "add", "-A")
    data = patch(old, new)
    if data:
        git(tmp_path, "apply", "--index", "--whitespace=nowarn", "-", stdin=data)
    listing = git(tmp_path, "ls-files", "-z")
    assert {path.decode() for path in listing.split(b"\0") if path} == set(new)


texts = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"a", b"\0"]), max_size=8).map(b"".join)
trees = st.dictionaries(
    st.sampled_from(["a", "d/b", "d/c c", "\u00e9"]), st.builds(File, texts, st.booleans()), max_size=4
).map(Tree)


@settings(max_examples=60, deadline=None)
@given(trees, trees)
def test_any_patch_applies(old, new):
    with tempfile.TemporaryDirectory() as folder:
        assert applied(old, new, folder=Path(folder)) == new
    assert (changed_lines(old, new) == 0) == (old == new)
    assert changed_lines(old, new) == changed_lines(new, old)


lines = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"]), max_size=12)


@settings(max_examples=300, deadline=None)
@given(lines, lines)
def test_the_changes_turn_the_one_into_the_other_with_the_fewest_edits(old, new):
    found = changes(old, new)
    built, at = [], 0
    for change in found:
        built += old[at : change.old_start] + new[change.new_start : change.new_end]
        at = change.old_end
    assert built + old[at:] == new
    edits = sum(one.old_end - one.old_start + one.new_end - one.new_start for one in found)
    assert edits == len(old) + len(new) - 2 * longest_common(old, new)


def longest_common(old, new):
    row = [0] * (len(new) + 1)
    for one in old:
        before = row
        row = [0]
        for at, other in enumerate(new):
            row.append(before[at] + 1 if one == other else max(row[-1], before[at + 1]))
    return row[-1]


def test_hostile_texts_take_a_bounded_time():
    old = split(b"".join(b"%d\n" % (n * 7919 % 10007) for n in range(100_000)))
    new = split(b"".join(b"%d\n" % (n * 104729 % 10007) for n in range(100_000)))
    started = time.process_time()
    found = changes(old, new)
    assert time.process_time() - started < 5
    assert sum(one.old_end - one.old_start for one in found) > MAX_EDITS


def test_what_people_see_is_encoded_and_capped():
    files = {"a": File(b"\x1b[31mred\n\xff\n" + "\u202e\n".encode()), "b": File(b"\0" * 9), "c": File(b"y\n" * 9999)}
    shown = unified(Tree(), Tree(files), limit=5000)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "+\\x1b[31mred" in shown
    assert "binary: 0 bytes -> 9 bytes" in shown
    assert len(shown) < 5100


def test_changed_lines():
    old = Tree({"a": File(b"1\n2\n3\n"), "b": File(b"x\n")})
    assert changed_lines(old, old) == 0
    assert changed_lines(old, Tree({"a": File(b"1\n9\n3\n"), "b": File(b"x\n")})) == 2
    assert changed_lines(old, Tree({"a": File(b"1\n2\n3\n")})) == 1
    assert changed_lines(old, Tree({**old, "c": File(b"")})) == 1
    assert changed_lines(old, Tree({**old, "b": File(b"x\n", executable=True)})) == 1
