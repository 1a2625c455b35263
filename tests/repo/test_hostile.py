"""Trees as an adversary would hand them over: whatever they hold, the door gives a clean tree or says why not."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.policy.locks import Globs
from harness.repo.caps import Caps
from harness.repo.door import Refusal, admit, judge
from harness.repo.names import flaw
from harness.tree import Entry, Tree

CAPS = Caps(files=20, file_bytes=64, total_bytes=256, depth=6)
NAMES = st.one_of(
    st.binary(min_size=0, max_size=12),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [
            *(b"a", b"A", b"a/b", b"a/../b", b"..", b"/etc/passwd", b".git", b".GIT/config", b"git~1", b"a\nb"),
            *(b"\x1b[2J", b"HEAD", b"objects/x", b"refs/x", "\u202ea".encode(), b"a\\b", b"a.", b" a", b"", b"a//b"),
            *(b"./a", b"a/"),
        ]
    ),
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
ENTRIES = st.builds(
    Entry,
    path=PATHS,
    kind=st.sampled_from(["file"] * 6 + ["dir", "symlink", "hardlink", "fifo", "socket", "device", "unknown"]),
    mode=st.integers(0, 0o7777),
    data=st.binary(max_size=80),
    links=st.integers(0, 3),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ENTRIES, max_size=25))
def test_what_comes_in_is_clean_and_what_does_not_says_why(entries):
    found = admit(entries, caps=CAPS)
    if isinstance(found, Refusal):
        assert found.violations
        assert all(str(violation).isprintable() for violation in found.violations)
        return
    assert len(found) <= CAPS.files
    assert found.size <= CAPS.total_bytes
    folded = [path.casefold() for path in found]
    assert len(set(folded)) == len(folded)
    for path, file in found.items():
        assert flaw(path.encode(), depth=CAPS.depth) is None
        assert len(file.data) <= CAPS.file_bytes
        assert ".git" not in path.casefold().split("/")
    assert all((entry.kind in ("file", "dir") and entry.links <= 1) or entry.kind == "dir" for entry in entries)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a.py", "b.py", "lib/c.py", "lib/d.txt", "e"]), st.binary(max_size=4)),
    st.dictionaries(st.sampled_from(["a.py", "b.py", "lib/c.py", "lib/d.txt", "e", "new.py"]), st.binary(max_size=4)),
    st.sampled_from([("a.py",), ("lib/**",), ("*.py",), ("**",)]),
)
def test_nothing_outside_the_globs_ever_differs_unseen(before, after, globs):
    parent = Tree().changed(before)
    child = Tree().changed(after)
    editable = Globs(globs)
    blamed = {violation.path for violation in judge(parent, child, editable)}
    for path in {*parent, *child}:
        if parent.get(path) != child.get(path) and not editable(path):
            assert path in blamed
        if parent.get(path) == child.get(path):
            assert path not in blamed
