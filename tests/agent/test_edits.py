"""What is read out of a model's reply, and what is not."""

import pytest
from agent.asks import tree_of
from hypothesis import given
from hypothesis import strategies as st

from harness.agent.edits import Unusable, read
from harness.tree import File, Tree

TRAIN = "RATE = 0.1\nSTEPS = 10\n\n\ndef go():\n    return RATE * STEPS\n"
TREE = Tree({"train.py": File(TRAIN.encode()), "lib/score.py": File(b"X = 1\n"), "conf.json": File(b'{"a": 1}\n')})
ONE = Tree({"train.py": File(TRAIN.encode()), "locked.py": File(b"Y = 1\n")})


def edited(reply, tree=TREE, editable=None):
    return read(reply, tree, lambda path: path in (editable or tree))


def block(old, new, path="train.py"):
    return f"{path}\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


def text(edits, path="train.py"):
    return edits.changes[path].decode()


@pytest.mark.parametrize(
    "wrap",
    [
        "{0}",
        "Why: faster.\n\n{0}",
        "```python\n{0}```\n",
        "Sure!\n\n```\n{0}```\nThat is all.",
        "<think>hm\n```\nx\n```</think>{0}",
    ],
)
def test_search_replace_blocks(wrap):
    edits = edited(wrap.format(block("RATE = 0.1\n", "RATE = 0.2\n")))
    assert (edits.format, text(edits)) == ("search_replace", TRAIN.replace("0.1", "0.2"))


@pytest.mark.parametrize(
    "head", ["`train.py`", "**train.py**", "File: train.py:", "### ./train.py", "a/train.py", "/work/train.py"]
)
def test_a_path_is_understood_however_it_is_dressed(head):
    assert text(edited(block("RATE = 0.1\n", "RATE = 0.2\n", head))) == TRAIN.replace("0.1", "0.2")


def test_several_blocks_add_up_and_may_name_the_file_once():
    reply = block("RATE = 0.1\n", "RATE = 0.2\n") + "\n" + block("STEPS = 10\n", "STEPS = 20\n", "")
    assert text(edited(reply)) == TRAIN.replace("0.1", "0.2").replace("10", "20")


def test_trailing_blanks_do_not_hide_a_place():
    assert text(edited(block("RATE = 0.1   \n", "RATE = 0.2\n"))) == TRAIN.replace("0.1", "0.2")


@pytest.mark.parametrize(
    "reply",
    [
        "Why: x\n\ntrain.py\n<<<<<<< SEARCH\nRATE = 0.1\n=======\nRATE = 0.2",
        "```\ntrain.py\n<<<<<<< SEARCH\nRATE = 0.1\n=======\nRATE = 0.2\n```\nThat is all.",
        "train.py\n<<<<<<< SEARCH\nRATE = 0.1\n>>>>>>> REPLACE\nRATE = 0.2",
        "train.py\n<<<<<<< SEARCH\nRATE = 0.1\n>>>>>>> REPLACE\nRATE = 0.2\n\nThat is all.",
    ],
)
def test_a_block_that_lacks_one_mark_is_understood(reply):
    assert text(edited(reply)) == TRAIN.replace("0.1", "0.2")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("train.py\n<<<<<<< SEARCH\nRATE = 0.1\nRATE = 0.2\n", "needs a line of ======="),
        ("train.py\n<<<<<<< SEARCH\nRATE = 0.1\n>>>>>>> REPLACE\n", "says nothing"),
        ("train.py\n<<<<<<< SEARCH\nRATE = 0.1\n=======\nThis is slow.\n", "valid Python"),
        ("notes.md\n<<<<<<< SEARCH\nold\n=======\nnew", "needs a line of ======="),
    ],
)
def test_a_block_that_lacks_more_or_lets_prose_in_is_not(reply, why):
    with pytest.raises(Unusable, match=why):
        edited(reply, Tree({**TREE, "notes.md": File(b"old\n")}))


def test_a_reply_that_was_cut_off_is_not_taken_for_a_shorter_one():
    reply = "train.py\n<<<<<<< SEARCH\nRATE = 0.1\n=======\nRATE = 0.2"
    with pytest.raises(Unusable, match="at its end"):
        read(reply, TREE, lambda path: True, cut=True)
    with pytest.raises(Unusable, match="ended before the edit did"):
        read("I would like to", TREE, lambda path: True, cut=True)


def test_a_comment_behind_a_line_is_not_asked_for_and_stays():
    tree = Tree({"train.py": File(b"RATE = 0.1  # how fast\nSTEPS = 10\nNAME = 'a # b'\n")})
    assert text(edited(block("RATE = 0.1\n", "RATE = 0.2\n"), tree)).startswith("RATE = 0.2  # how fast\nSTEPS")
    assert text(edited(block("RATE = 0.1\n", "RATE = 0.2  # mine\n"), tree)).startswith("RATE = 0.2  # mine\n")
    with pytest.raises(Unusable, match="not found"):
        edited(block("NAME = 'a\n", "NAME = 'b'\n"), tree)


def test_a_block_for_a_file_that_is_not_there_is_for_the_only_one_there_is():
    reply = block("RATE = 0.1\n", "RATE = 0.2\n", "path/of/file.py")
    assert text(edited(reply, ONE, ["train.py"])) == TRAIN.replace("0.1", "0.2")
    with pytest.raises(Unusable, match=r"not found in path/of/file\.py"):
        edited(reply)


def test_two_fences_are_what_is_there_and_what_should_be_where_the_first_is_found():
    reply = "Why: x\n\nChange:\n```python\nRATE = 0.1\n```\nTo:\n```python\nRATE = 0.2\n```\n"
    edits = edited(reply, ONE, ["train.py"])
    assert (edits.format, text(edits)) == ("old_and_new", TRAIN.replace("0.1", "0.2"))
    with pytest.raises(Unusable, match="not whole"):
        edited(reply.replace("RATE = 0.1", "RATES = 0.1"), ONE, ["train.py"])
    with pytest.raises(Unusable, match="valid Python"):
        edited(reply.replace("RATE = 0.2", "a bigger one"), ONE, ["train.py"])


def test_a_block_that_is_not_found_is_told_the_line_most_like_it():
    with pytest.raises(Unusable, match=r"not found in train\.py; the line most like it there is 'RATE = 0\.1'"):
        edited(block("RATES = 0.15\n", "RATES = 0.2\n"))


MANY = Tree({"train.py": File(b"RATE = 0.1  # of 1.0\nuse(RATE, 3, 'a', False)\nuse(OTHER, 3)\nuse(OTHER, 4)\n")})


@pytest.mark.parametrize(
    ("old", "new", "there"),
    [
        ("RATE = 0.155\n", "RATE = 0.24\n", "RATE = 0.24  # of 1.0\n"),
        ("RATE = 0.05  # mine\n", "RATE = 2e-3\n", "RATE = 2e-3  # of 1.0\n"),
        ("use(RATE, 7, 'b', True)\n", "use(RATE, 7, 'c', True)\n", "use(RATE, 3, 'c', False)\n"),
        (
            "RATE = 0.3\nuse(RATE, 4, 'a', False)\n",
            "RATE = 0.3\nuse(RATE, 5, 'a', False)\n",
            "use(RATE, 5, 'a', False)\n",
        ),
    ],
)
def test_a_change_of_literals_alone_is_made_where_the_line_has_others(old, new, there):
    edits = edited(block(old, new), MANY)
    made = text(edits)
    assert edits.format == "literals"
    assert there in made
    assert sum(a != b for a, b in zip(made.splitlines(), MANY["train.py"].data.decode().splitlines(), strict=True)) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE = 0.155\n", "RATE = 0.155 + x\n"),  # more than a literal
        ("RATE = 0.155\n", "RATE = 0.24\nSTEPS = 3\n"),  # another number of lines
        ("use(OTHER, 7)\n", "use(OTHER, 8)\n"),  # two places
        ("7, 8\n", "7, 9\n"),  # nothing but literals
    ],
)
def test_anything_more_or_unclear_is_not_guessed(old, new):
    with pytest.raises(Unusable, match="not found"):
        edited(block(old, new), MANY)


def test_a_literal_that_is_there_already_changes_nothing():
    with pytest.raises(Unusable, match=r"changes nothing: 'RATE = 0\.1' is there already; change something else"):
        edited(block("RATE = 0.05\n", "RATE = 0.1\n"), MANY)


@pytest.mark.parametrize(
    "reply",
    [
        "Why: faster\n\ntrain.py:\n- RATE = 0.1\n+ RATE = 0.2\n",
        "train.py\n-RATE = 0.1\n+RATE = 0.2\n",
        "train.py\n```diff\n- RATE = 0.1\n+ RATE = 0.2\n```\n",
        "train.py\n<<<<<<< SEARCH\n- RATE = 0.1\n+ RATE = 0.2\n>>>>>>> REPLACE\n",
        "train.py\n<<<<<<< SEARCH\n- RATE = 0.3\n+ RATE = 0.2\n",
    ],
)
def test_minus_and_plus_lines_without_more_are_understood(reply):
    assert text(edited(reply)) == TRAIN.replace("0.1", "0.2")


@pytest.mark.parametrize("reply", ["- fast\n+ faster\n", "train.py\n- RATES = 0.1\n+ RATES = 0.2\n", "- RATE = 0.1\n"])
def test_a_list_of_points_is_prose(reply):
    with pytest.raises(Unusable, match="only prose"):
        edited(reply)


def test_signed_lines_keep_their_indent():
    tree = Tree({"train.py": File(b"def f():\n    x = 1\n    return x\n")})
    for sign in ("-    x = 1\n+    x = 2\n", "-     x = 1\n+     x = 2\n"):
        assert text(edited(f"train.py\n{sign}", tree)) == "def f():\n    x = 2\n    return x\n"


def test_a_new_file_by_an_empty_search():
    assert edited(block("", "Z = 1\n", "lib/new.py")).changes == {"lib/new.py": b"Z = 1\n"}


@pytest.mark.parametrize("numbers", ["@@ -1,2 +1,2 @@", "@@ -40,2 +40,2 @@", "@@"])
@pytest.mark.parametrize("wrap", ["{0}", "```diff\n{0}```\nDone."])
def test_unified_diffs_are_found_by_their_lines_not_their_numbers(numbers, wrap):
    diff = f"--- a/train.py\n+++ b/train.py\n{numbers}\n-RATE = 0.1\n+RATE = 0.2\n STEPS = 10\n"
    edits = edited(wrap.format(diff))
    assert (edits.format, text(edits)) == ("unified_diff", TRAIN.replace("0.1", "0.2"))


def test_a_diff_of_two_files_that_makes_one_and_removes_another():
    diff = (
        "--- /dev/null\n+++ b/lib/new.py\n@@ -0,0 +1 @@\n+Z = 1\n"
        "--- a/lib/score.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-X = 1\n"
    )
    changes = edited(diff).changes
    assert changes["lib/score.py"] is None
    assert changes["lib/new.py"].strip() == b"Z = 1"


@pytest.mark.parametrize(
    "reply",
    [
        "train.py\n```python\n{0}```\n",
        "```python train.py\n{0}```\n",
        "```train.py\n{0}```\n",
        "Here it is:\n\n**train.py**\n\n```py\n{0}```\nBetter now.",
        "```python\n# train.py\n{0}```\n",
    ],
)
def test_whole_files_in_a_fence(reply):
    new = TRAIN.replace("0.1", "0.3")
    edits = edited(reply.format(new))
    assert edits.format == "whole_file"
    assert text(edits).endswith(new)


def test_the_only_editable_file_needs_no_name():
    new = TRAIN.replace("0.1", "0.3")
    reply = f"First:\n```bash\nls\n```\nthen\n```python\n{new}```\n"
    assert edited(reply, ONE, ["train.py"]).changes == {"train.py": new.encode()}


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Raise the rate to 0.2, it will converge faster.", "only prose"),
        ("RATE = 0.2\nSTEPS = 10\n", "only prose"),
        ("", "only prose"),
        (block("RATES = 0.5\n", "RATES = 0.2\n"), "not found"),
        (block("\n", "RATE = 0.2\n"), "empty SEARCH"),
        (block("RATE = 0.1\n", "RATE = (\n"), "valid Python"),
        (block("RATE = 0.1\n", "RATE = 0.1\n"), "changes nothing"),
        (block('{"a": 1}\n', '{"a": }\n', "conf.json"), "would not be valid"),
        ("train.py\n```python\nRATE = 0.2\n# ... rest of the code unchanged\n" + "x = 1\n" * 9 + "```\n", "left out"),
        ("train.py\n```python\nRATE = 0.2\n```\n", "not whole"),
        ("train.py\n```python\n# existing code here\n" + TRAIN + "```\n", "left out"),
        ("```python\nRATE = 0.2\n```\n", "does not say which file"),
        ("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-RATE = 0.7\n+RATE = 0.2\n", "not in the file"),
        (f"train.py\n```python\n{TRAIN}", "only prose"),
    ],
)
def test_what_cannot_be_used_says_why(reply, reason):
    with pytest.raises(Unusable, match=reason):
        edited(reply)


def test_prose_in_a_fence_for_a_python_file_is_not_adopted():
    prose = "train.py\n```\n" + "The rate should be raised, since it converges slowly.\n" * 4 + "```\n"
    with pytest.raises(Unusable, match="valid Python"):
        edited(prose)


def test_a_locked_file_is_left_to_the_door():
    assert edited(block("Y = 1\n", "Y = 2\n", "locked.py"), ONE, ["train.py"]).changes == {"locked.py": b"Y = 2\n"}


def test_windows_line_ends_in_a_reply():
    assert text(edited(block("RATE = 0.1\n", "RATE = 0.2\n").replace("\n", "\r\n"))) == TRAIN.replace("0.1", "0.2")


BEGINNINGS = ["", "<<<<<<< SEARCH\n", "```\n", "--- a\n+++ b\n@@\n"]


@given(st.sampled_from(BEGINNINGS), st.text(max_size=300))
def test_no_reply_breaks_the_reader(beginning, reply):
    try:
        edits = edited(beginning + reply, tree_of(train=TRAIN))
    except Unusable:
        return
    assert edits.changes


def test_a_block_that_fits_twice_is_not_guessed():
    twice = tree_of(train="A = 1\nB = 2\nA = 1\n")
    with pytest.raises(Unusable, match="found 2 times"):
        edited(block("A = 1\n", "A = 3\n"), twice)
