"""What later proposers are told of a change."""

from agent.asks import tree_of

from harness.agent.gist import gist
from harness.tree import File, Tree

TREE = tree_of(train="RATE = 0.1\nSTEPS = 10\n", other="X = 1\n")


def test_changed_lines_without_their_surroundings():
    changes = {"train.py": b"RATE = 0.2\nSTEPS = 10\nMORE = 1\n", "other.py": None, "new.py": b"Y = 2\n"}
    assert gist(TREE, changes).splitlines() == [
        "new.py:",
        "with  Y = 2",
        "other.py: removed",
        "train.py:",
        "RATE = 0.1  ->  RATE = 0.2",
        "with  MORE = 1",
    ]


def test_long_and_odd_ones_are_cut_and_printable():
    told = gist(TREE, {"train.py": b"".join(b"Z = %d\n" % number for number in range(40))}).splitlines()
    assert (len(told), told[-1]) == (17, "(27 more rows)")
    assert len(gist(TREE, {"train.py": b"Z" * 10_000})) < 400
    assert gist(Tree({"a.bin": File(b"\xff\xfe")}), {"a.bin": b"\xff\x00"}) == "a.bin: 2 bytes, not text"
    assert gist(TREE, {"train.py": "RATE = 0.1\u202e\n".encode()}).isascii()
    assert gist(TREE, {}) == ""
