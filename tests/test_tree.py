from hypothesis import given
from hypothesis import strategies as st

from harness.tree import File, Tree

names = st.text("abc/", min_size=1, max_size=8)
trees = st.dictionaries(names, st.builds(File, st.binary(max_size=20), st.booleans()), max_size=6).map(Tree)


@given(trees, trees)
def test_equal_digest_means_equal_tree(one, other):
    assert (one == other) == (one.digest == other.digest)


@given(trees)
def test_order_of_insertion_does_not_matter(tree):
    assert Tree(reversed(list(tree.items()))).digest == tree.digest


def test_changed_writes_removes_and_keeps_modes():
    tree = Tree({"run.sh": File(b"a", executable=True), "b": File(b"b")})
    after = tree.changed({"run.sh": b"c", "b": None, "new": b"n"})
    assert dict(after) == {"run.sh": File(b"c", executable=True), "new": File(b"n")}
    assert dict(tree)["b"] == File(b"b")


def test_subtree_takes_whole_folders_only():
    tree = Tree({"data/x": File(b"1"), "database": File(b"2")})
    assert list(tree.subtree("data")) == ["x"]


def test_a_path_cannot_be_confused_with_content():
    assert Tree({"a": File(b"")}).digest != Tree({"a:0": File(b"")}).digest
