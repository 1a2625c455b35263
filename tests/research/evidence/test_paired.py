import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.policy.honest import GuardTable
from harness.records import Outcome, Status
from harness.research.evidence.paired import averages, guard_values, item_test, mean_items, regressed
from harness.research.evidence.simplicity import diff_lines
from harness.streams import stream
from harness.tree import File, Tree


def lower(a, b):
    return b - a


def test_mcnemar_is_exact_for_right_and_wrong():
    mine = {f"i{n}": float(n < 2) for n in range(20)}
    theirs = {f"i{n}": float(n < 12) for n in range(20)}
    found = item_test(mine, theirs, lower, stream(0, "x"))
    assert found == {"examples": 20, "gained": 10, "lost": 0, "test": "mcnemar", "p": 2**-10}


def test_graded_items_are_bootstrapped():
    mine = {f"i{n}": 0.1 + n / 1000 for n in range(30)}
    theirs = {f"i{n}": 0.2 + n / 1000 for n in range(30)}
    found = item_test(mine, theirs, lower, stream(0, "x"))
    assert found["test"] == "bootstrap"
    assert found["p"] == 1 / 10_001
    assert item_test(theirs, mine, lower, stream(0, "x"))["p"] == 1.0


def test_other_items_are_no_pairs():
    assert item_test({"a": 1.0}, {"b": 1.0}, lower, stream(0, "x")) is None
    assert item_test({}, {}, lower, stream(0, "x")) is None


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.floats(0, 1), min_size=1))
def test_a_variant_is_never_better_than_itself(items):
    found = item_test(items, items, lower, stream(0, "x"))
    if found is not None:
        assert found["gained"] == found["lost"] == 0
        assert found["p"] == 1.0


def test_a_guard_metric_must_not_get_worse():
    guard = GuardTable(metric="latency", tolerance=0.5)
    assert regressed([guard], {"guard:latency": 1.4}, {"guard:latency": 1.0}, "min") == {}
    found = regressed([guard], {"guard:latency": 1.6}, {"guard:latency": 1.0}, "max")
    assert found == {"latency": {"candidate": 1.6, "incumbent": 1.0, "tolerance": 0.5}}
    assert regressed([guard], {}, {"guard:latency": 1.0}, "min")["latency"]["candidate"] is None


def test_guarded_examples_follow_the_metric():
    guard = GuardTable(items=("easy-*",))
    before = {"easy-1": 1.0, "easy-2": 1.0, "hard-1": 0.0}
    after = {"easy-1": 1.0, "easy-2": 0.0, "hard-1": 1.0}
    assert guard_values(guard, before) == 1.0
    assert list(regressed([guard], after, before, "max")) == ["items easy-*"]
    assert regressed([guard], after, before, "min") == {}


def test_a_guard_is_a_metric_or_examples():
    with pytest.raises(ValueError, match="either"):
        GuardTable()
    with pytest.raises(ValueError, match="either"):
        GuardTable(metric="x", items=("a",))


def test_averages_and_means():
    assert averages(0.5, {"a": 0.0, "b": 1.0, "guard:x": 9.0})
    assert not averages(0.4, {"a": 0.0, "b": 1.0})
    runs = [Outcome(Status.OK, 0.5, {"a": 0.0}), Outcome(Status.OK, 0.5, {"a": 1.0})]
    assert mean_items(runs) == {"a": 0.5}
    assert mean_items([*runs, Outcome(Status.OK, 0.5, {"b": 1.0})]) == {}
    assert mean_items([]) == {}


def test_lines_of_difference():
    root = Tree({"a.py": File(b"1\n2\n3\n"), "b.py": File(b"x\n")})
    assert diff_lines(root, root) == 0
    assert diff_lines(root, root.changed({"a.py": b"3\n2\n1\n"})) == 0
    assert diff_lines(root, root.changed({"a.py": b"1\n2\n4\n"})) == 2
    assert diff_lines(root, root.changed({"b.py": None})) == 2
    assert math.isfinite(diff_lines(root, Tree()))
