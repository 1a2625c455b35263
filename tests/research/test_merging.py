import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.research.merging import Conflict, merge_lines, merge_trees
from harness.tree import File, Tree


def tree(**files):
    return Tree({f"{name}.py": File(data) for name, data in files.items()})


SIX = b"1\n2\n3\n4\n5\n6\n"
BASE = tree(a=SIX, b=b"x\n")


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        (b"one\n2\n3\n4\n5\n6\n", b"1\n2\n3\n4\n5\nsix\n", b"one\n2\n3\n4\n5\nsix\n"),
        (SIX, b"1\n2\n3\n6\n", b"1\n2\n3\n6\n"),
        (SIX + b"7\n", b"0\n" + SIX, b"0\n" + SIX + b"7\n"),
        (b"1\ntwo\n3\n4\n5\n6\n", b"1\ntwo\n3\n4\n5\n6\n", b"1\ntwo\n3\n4\n5\n6\n"),
    ],
)
def test_both_sides_are_in_it_whichever_comes_first(ours, theirs, merged):
    one, other = tree(a=ours, b=b"y\n"), tree(a=theirs, b=b"x\n")
    for found in (merge_trees(BASE, one, other), merge_trees(BASE, other, one)):
        assert found == tree(a=merged, b=b"y\n")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (tree(a=b"1\nTWO\n3\n4\n5\n6\n"), tree(a=b"1\ntwo\n3\n4\n5\n6\n")),
        (tree(b=b"x\n"), tree(a=b"1\n2\n3\n4\n5\nsix\n", b=b"x\n")),
        (tree(a=b"1\n\x002\n", b=b"x\n"), tree(a=b"1\n", b=b"x\n")),
        (tree(a=b"1\n2\n3\n4\n5\n6\n", b=b"x\n", c=b"mine"), tree(a=b"1\n2\n3\n4\n5\n6\n", b=b"x\n", c=b"yours")),
    ],
)
def test_what_does_not_go_together_is_a_conflict(ours, theirs):
    assert isinstance(merge_trees(BASE, ours, theirs), Conflict)
    assert isinstance(merge_trees(BASE, theirs, ours), Conflict)


def test_files_added_removed_and_re_moded_on_one_side():
    ours = Tree({"a.py": File(BASE["a.py"].data, True), "new.py": File(b"n")})
    merged = merge_trees(BASE, ours, BASE.changed({"a.py": b"1\n2\n3\n4\n5\n"}))
    assert set(merged) == {"a.py", "new.py"}
    assert merged["a.py"] == File(b"1\n2\n3\n4\n5\n", True)


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"]), max_size=8)


@given(LINES, LINES, LINES)
def test_a_merge_of_lines_is_the_same_either_way_and_of_one_side_alone_that_side(base, ours, theirs):
    assert merge_lines(base, ours, base) == ours
    assert merge_lines(base, ours, ours) == ours
    assert merge_lines(base, ours, theirs) == merge_lines(base, theirs, ours)
