"""The door: what comes in, what is refused and why. Hostile trees are data."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.repo.door import Caps, Refusal, admit, apply_changes, judge
from harness.tree import Entry, File, Tree


def entry(path: str | bytes, data: bytes = b"x", **fields) -> Entry:
    raw = path.encode("utf-8", "surrogatepass") if isinstance(path, str) else path
    return Entry(raw, fields.pop("kind", "file"), data=data, **fields)


def refused(*entries: Entry, **options) -> list[str]:
    found = admit(entries, **options)
    assert isinstance(found, Refusal), found
    return [violation.kind for violation in found.violations]


def test_regular_files_come_in_with_two_modes():
    found = admit([entry("b/run.sh", mode=0o4711), entry("a.txt", mode=0o666), entry("b/", kind="dir", mode=0o1777)])
    assert found == Tree({"a.txt": File(b"x"), "b/run.sh": File(b"x", executable=True)})


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/etc/passwd", ".", "..", "../up", "a/../b", "a//b", "a/", "./a", "a/.", "a\\b", "C:\\x", "a\nb",
        "a\0b", "a\x1b[31m",
        "a\u202eb", "a\u200bb", "a\ufeff", "a\u00adb", "\u3164", "a\ufe0f", "a.", "a ", " a", "a\u00a0",
        "dir./x", "dir /x", "e\u0301", "\ud800", b"\xff\xfe", "x" * 256, "\u00e9" * 128, "/".join("d" * 33),
        "d/" * 600 + "x",
        ".git", ".GIT/config", "sub/.git", "sub/.Git/HEAD", "git~1", "GIT~1/hooks/post-checkout", ".git\u200c",
        ".git::$INDEX_ALLOCATION", ".git ", ".git.", ".gitmodules", "a/.GITMODULES", "gitmod~1", "\ue000", "a\u2028b",
    ],
)  # fmt: skip
def test_a_bad_name_is_refused(path):
    assert refused(entry(path)) == ["name"]


@pytest.mark.parametrize(
    "path",
    [
        "a b",
        "\u00e9t\u00e9.py",
        "\u65e5\u672c/\u8a9e",
        ".gitignore",
        ".gitattributes",
        "-x",
        "a'\"b",
        "git",
        "x.git",
        "#",
    ],
)
def test_a_plain_name_is_let_in(path):
    assert admit([entry(path)]) == Tree({path: File(b"x")})


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "fifo", "socket", "device", "unknown"])
def test_only_regular_files(kind):
    assert refused(entry("a", kind=kind)) == ["kind"]


def test_a_second_name_for_a_file_is_refused():
    assert refused(entry("a", links=2)) == ["kind"]
    assert isinstance(admit([entry("d", kind="dir", links=3)]), Tree)


@pytest.mark.parametrize(
    "paths",
    [
        ("a", "a"),
        ("README", "readme"),
        ("A/x", "a/y"),
        ("stra\u00dfe", "STRASSE"),
        ("\u212b", "\u00e5"),
        ("d", "d/x"),
        ("D", "d/x"),
    ],
)
def test_two_names_that_some_system_takes_for_one(paths):
    assert refused(*map(entry, paths))[0] in ("collision", "name")


def test_a_folder_where_a_file_is():
    assert refused(entry("d", kind="dir"), entry("d")) == ["collision", "collision"]
    assert isinstance(admit([entry("d", kind="dir"), entry("d/", kind="dir")]), Refusal)


@pytest.mark.parametrize(
    "paths",
    [
        ["x/HEAD", "x/objects/a", "x/refs/b", "x/config"],
        ["HEAD", "objects/a", "refs/heads/b"],
        ["d/x/head", "d/x/Objects/a", "d/x/REFS/b"],
        ["w/HEAD", "w/commondir", "c/objects/a", "c/refs/b"],
    ],
)
def test_what_git_would_take_for_a_repository_is_refused(paths):
    assert refused(*map(entry, paths)) == ["repository"]


def test_what_only_resembles_a_repository_is_let_in():
    assert isinstance(admit(map(entry, ["x/HEAD", "x/objects/a", "refs/b", "HEAD.md", "commondir"])), Tree)


def test_caps():
    caps = Caps(files=3, file_bytes=10, total_bytes=20, depth=2)
    assert refused(*(entry(f"f{n}") for n in range(4)), caps=caps) == ["count"]
    assert refused(*(entry(f"d{n}", kind="dir") for n in range(4)), caps=caps) == ["count"]
    assert refused(entry("a", b"x" * 11), caps=caps) == ["size"]
    assert refused(*(entry(f"f{n}", b"x" * 9) for n in range(3)), caps=caps) == ["size"]
    assert refused(entry("a/b/c"), caps=caps) == ["name"]
    assert isinstance(admit([entry(f"f{n}", b"x" * 6) for n in range(3)], caps=caps), Tree)


def test_the_throwaway_git_folder_is_dropped_only_when_told():
    made = [entry(".git", kind="dir"), entry(".git/HEAD"), entry(".git/hooks", kind="symlink"), entry("a")]
    assert admit(made, drop_git=True) == Tree({"a": File(b"x")})
    assert "name" in refused(*made)
    assert refused(entry("sub/.git/HEAD"), drop_git=True) == ["name"]
    assert refused(entry(".GIT/HEAD"), drop_git=True) == ["name"]
    assert refused(entry(".git", kind="symlink"), drop_git=True) == ["name"]
    assert refused(entry(".git"), drop_git=True) == ["name"]


def test_a_violation_is_safe_to_show():
    found = admit([entry("\x1b]0;owned\x07\u202e" + "a" * 5000)])
    assert isinstance(found, Refusal)
    shown = str(found.violations[0])
    assert shown.isprintable()
    assert len(shown) < 400


def test_judge_is_default_deny():
    parent = Tree({"a.py": File(b"1"), "b.py": File(b"2"), "c.sh": File(b"3"), "train.py": File(b"4")})
    child = Tree(
        {"a.py": File(b"9"), "c.sh": File(b"3", executable=True), "new.py": File(b""), "train.py": File(b"5", True)}
    )
    found = judge(parent, child, lambda path: path == "train.py")
    assert [(one.path, one.kind) for one in found] == [
        ("a.py", "changed"), ("b.py", "removed"), ("c.sh", "mode"), ("new.py", "added"),
    ]  # fmt: skip
    assert judge(parent, child, lambda _: True) == []
    assert judge(parent, parent, lambda _: False) == []


def test_changes_go_through_the_same_door():
    tree = Tree({"a": File(b"1", executable=True), "b": File(b"2")})
    assert admit(apply_changes(tree, {"a": b"9", "b": None, "c/d": b"3", "gone": None})) == Tree(
        {"a": File(b"9", executable=True), "c/d": File(b"3")}
    )
    for hostile in ("../x", "/x", ".git/config", "a/x", "A", "\udcff", "\ud800"):
        assert isinstance(admit(apply_changes(tree, {hostile: b""})), Refusal)


names = st.one_of(
    st.text(max_size=12),
    st.lists(st.sampled_from(["..", ".", "", ".git", "a", "A", "b", "git~1", "\u200b", "x\n"]), max_size=4).map(
        "/".join
    ),
).map(lambda text: text.encode("utf-8", "surrogatepass"))
trees = st.dictionaries(st.sampled_from("abcd"), st.builds(File, st.binary(max_size=2), st.booleans()))
entries = st.builds(
    Entry,
    st.one_of(names, st.binary(max_size=12)),
    st.sampled_from(["file", "file", "file", "dir", "symlink", "hardlink", "fifo", "socket", "device", "unknown"]),
    st.integers(0, 0o7777),
    st.binary(max_size=8),
    st.integers(1, 3),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(entries, max_size=6), st.booleans())
def test_whatever_is_let_in_is_harmless(found, drop_git):
    tree = admit(found, drop_git=drop_git)
    if isinstance(tree, Refusal):
        assert tree.violations
        return
    for path in tree:
        parts = path.split("/")
        assert path.isprintable()
        assert not {"", ".", ".."} & set(parts)
        assert not any(part.casefold() in (".git", "git~1") for part in parts)
    assert len({path.casefold() for path in tree}) == len(tree)
    assert admit(tree.entries()) == tree
    assert len(tree) <= sum(one.kind == "file" for one in found)


@settings(max_examples=100, deadline=None)
@given(trees, st.data())
def test_judge_names_exactly_the_locked_differences(files, data):
    parent = Tree(files)
    child = Tree(
        data.draw(st.dictionaries(st.sampled_from("abcd"), st.builds(File, st.binary(max_size=2), st.booleans())))
    )
    locked = data.draw(st.sets(st.sampled_from("abcd")))
    found = judge(parent, child, lambda path: path not in locked)
    assert [one.path for one in found] == sorted(path for path in locked if parent.get(path) != child.get(path))
