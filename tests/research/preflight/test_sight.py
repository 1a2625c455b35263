"""Answers in sight, whatever their form, and what gives them away."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from harness.evaluation.subject import SplitData
from harness.research.preflight.leaks import answers_hinted, answers_in_sight
from harness.tree import File, Tree

COUNT = 60
DRAW = np.random.default_rng(3)
LABELS = [int(value) for value in DRAW.integers(0, 2, COUNT)]
VALUES = DRAW.uniform(-1, 1, (COUNT, 2)).round(5).tolist()
IDS = [f"r{at:04d}" for at in range(COUNT)]


def table(rows, split=","):
    return File("\n".join(split.join(map(str, row)) for row in rows).encode())


def subject(inputs, *, tree=None, labels=LABELS, ids=IDS, names=()):
    rows = zip(ids, labels, *names, strict=True) if ids else zip(labels, strict=True)
    data = SplitData(Tree(inputs), Tree({"y.csv": table(rows)}))
    return SimpleNamespace(root=Tree(tree or {"model.py": File(b"W = 0\n")}), splits={"vault": data})


def rows(*, last=(), ids=IDS):
    return table([id, *row, *more] for id, row, *more in zip(ids, VALUES, *last, strict=True))


PLAIN = {"x.csv": rows()}


def saved(array):
    held = io.BytesIO()
    np.save(held, array)
    return File(held.getvalue())


TOLD = {
    "last column": subject({"x.csv": rows(last=[LABELS])}),
    "a column with a head": subject({"x.csv": table([["id", "a", "y"], *zip(IDS, range(COUNT), LABELS, strict=True)])}),
    "a field": subject(
        {"x.jsonl": File("\n".join(json.dumps({"id": i, "t": y}) for i, y in zip(IDS, LABELS, strict=True)).encode())}
    ),
    "floats": subject({"x.csv": rows(last=[[float(label) for label in LABELS]])}),
    "in another order": subject(
        {"x.csv": table(sorted(zip(IDS, VALUES, LABELS, strict=True), key=lambda one: one[1]))}
    ),
    "an object in the tree": subject(
        PLAIN, tree={"lib/notes.json": File(json.dumps(dict(zip(IDS, LABELS, strict=True))).encode())}
    ),
    "a literal in code": subject(PLAIN, tree={"m.py": File(f"T = {dict(zip(IDS, LABELS, strict=True))}".encode())}),
    "a list in the tree": subject(PLAIN, tree={"t.json": File(json.dumps(LABELS).encode())}),
    "labels without ids": subject(PLAIN, ids=[], tree={"t.json": File(json.dumps(LABELS).encode())}),
    "a column of an array": subject({"x.npy": saved(np.column_stack([VALUES, LABELS]))}),
}


@pytest.mark.parametrize("form", TOLD)
def test_answers_in_any_form_are_found(form):
    (line,) = answers_in_sight(TOLD[form])
    assert "vault's labels lie in" in line


def test_plain_inputs_tell_nothing():
    assert answers_in_sight(subject(PLAIN)) == []
    assert answers_hinted(subject(PLAIN)) == []
    noise = [label if at % 5 else 1 - label for at, label in enumerate(LABELS)]
    assert answers_in_sight(subject({"x.csv": rows(last=[noise])})) == []


def test_a_column_that_is_nearly_always_one_thing_is_no_answer():
    rare, other = [0] * COUNT, [0] * COUNT
    rare[7] = other[30] = 1
    assert answers_in_sight(subject({"x.csv": rows(last=[other])}, labels=rare)) == []


def test_inputs_that_a_scorer_needs_again_are_no_answers():
    asked = [f"what is {at}?" for at in range(COUNT)]
    inputs = {"x.csv": table(zip(IDS, asked, strict=True))}
    assert answers_in_sight(subject(inputs, names=[asked])) == []


@pytest.mark.parametrize("end", [True, False])
def test_ids_that_hold_the_answer_are_named(end):
    ids = [f"{id}{'yx'[label]}" if end else f"{'ab'[label]}-{id}" for id, label in zip(IDS, LABELS, strict=True)]
    (line,) = answers_hinted(subject({"x.csv": rows(ids=ids)}, ids=ids))
    assert "of an id tells the answer" in line


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (sorted(LABELS), "sorted by answer"),
        (sorted(float(value) for value, _ in VALUES), "sorted by answer"),
        ([at % 2 for at in range(COUNT)], "in turn"),
        ([1] * COUNT, None),
        ([value for value, _ in VALUES], None),
    ],
)
def test_order_that_gives_answers_away_is_named(labels, word):
    found = answers_hinted(subject(PLAIN, labels=labels))
    assert found == [] if word is None else word in found[0]


def test_what_counts_is_the_order_of_the_inputs():
    ordered = sorted(zip(LABELS, IDS, strict=True))
    ids, labels = [id for _, id in ordered], [label for label, _ in ordered]
    assert answers_hinted(subject(PLAIN, ids=ids, labels=labels)) == []
    assert answers_hinted(subject({"x.csv": rows(ids=ids)}, ids=IDS, labels=LABELS)) != []
