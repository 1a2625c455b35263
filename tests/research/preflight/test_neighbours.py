"""Examples of two splits that are the same under another name, and those that only look so."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from harness.research.preflight.check import _disjoint
from harness.research.preflight.neighbours import near_duplicates
from harness.research.preflight.tables import ids_of
from harness.tree import File, Tree

COUNT = 60
ARCHIVES = Path(__file__).parents[3] / "archives"


def read(folder):
    return Tree({path.name: File(path.read_bytes()) for path in folder.iterdir()})


def points(seed, columns=2, count=COUNT):
    return np.random.default_rng(seed).uniform(-1, 1, (count, columns))


def csv(rows, prefix="r", form="{:.6f}"):
    lines = (",".join([f"{prefix}{at:04d}", *map(form.format, row)]) for at, row in enumerate(rows))
    return Tree({"x.csv": File("\n".join(lines).encode() + b"\n")})


def records(name, rows):
    lines = (json.dumps(row) for row in rows)
    return Tree({name: File("\n".join(lines).encode())})


def saved(array):
    held = io.BytesIO()
    np.save(held, array)
    return Tree({"x.npy": File(held.getvalue())})


def asked(seed, prefix):
    draw = np.random.default_rng(seed)
    pairs = [(int(a), int(b)) for a, b in draw.integers(100, 999, (COUNT, 2))]
    return [{"id": f"{prefix}-{at:04d}", "q": f"What is {a} times {b}?"} for at, (a, b) in enumerate(pairs)]


SAME = {
    "renumbered": (csv(points(0)), csv(points(0), "h")),
    "all but the order": (csv(points(0)), csv(points(0)[::-1], "h")),
    "short rows": (csv(points(0), form="{:.3f}"), csv(points(0), form="{:.3f}")),
    "columns added": (csv(points(0, 4)), csv(np.hstack([points(0, 4), points(5, 3)]), "h")),
    "questions": (records("q.jsonl", asked(0, "visible")), records("q.jsonl", asked(0, "holdout"))),
    "another form": (csv(points(0)), Tree({"x.tsv": File(csv(points(0), "h")["x.csv"].data.replace(b",", b"\t"))})),
    "another name": (csv(points(0)), Tree({"z.csv": csv(points(0), "h")["x.csv"]})),
    "keys of an object": tuple(
        Tree({"q.json": File(json.dumps({one["id"]: one["q"] for one in asked(0, prefix)}).encode())})
        for prefix in "vh"
    ),
    "arrays of one number": (saved(points(0)[:, 0]), saved(points(0)[:, 0])),
    "one column of short words": tuple(
        Tree({"w.txt": File("\n".join(f"w{n * 7919 % 1000:x}k{n}" * 2 for n in range(COUNT)).encode() + end)})
        for end in (b"", b"\n")
    ),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_split_under_other_names_fails(kind):
    visible, holdout = SAME[kind]
    seen = near_duplicates({"visible": visible, "holdout": holdout})
    assert len(seen.equal) >= COUNT
    assert [one.state for one in _disjoint(seen)] == ["failed"]


def test_sums_are_no_ids():
    sums = [f"{int(a)}*{int(b)}" for a, b in np.random.default_rng(0).integers(10, 99, (COUNT, 2))]
    splits = {name: records("s.jsonl", [{"id": f"{name}{n}", "s": s} for n, s in enumerate(sums)]) for name in "ab"}
    assert len(near_duplicates(splits).equal) == COUNT


def test_numbered_names_of_files_are_no_examples():
    splits = {name: records("s.jsonl", [{"id": n, "file": f"img/{n:03d}.png"} for n in range(COUNT)]) for name in "ab"}
    assert near_duplicates(splits).equal == []


def test_one_row_of_another_split_is_found():
    other = points(1)
    other[7] = points(0)[50]
    seen = near_duplicates({"visible": csv(points(0)), "holdout": csv(other)})
    assert seen.equal == ["visible x.csv:51 and holdout x.csv:8"]


@pytest.mark.parametrize("form", [csv, saved])
def test_rows_moved_a_little_are_near(form):
    moved = points(0) + np.random.default_rng(9).uniform(-2e-4, 2e-4, (COUNT, 2))
    seen = near_duplicates({"visible": form(points(0)), "holdout": form(moved)})
    assert not seen.equal
    assert len(seen.near) >= COUNT / 2
    assert [one.state for one in _disjoint(seen)] == ["warning"]


@pytest.mark.parametrize("columns", [1, 2, 8])
def test_other_draws_of_the_same_kind_are_no_neighbours(columns):
    for seed in range(10):
        splits = {name: csv(points((seed, at), columns)) for at, name in enumerate(("visible", "holdout", "vault"))}
        seen = near_duplicates(splits)
        assert len(seen.near) + len(seen.equal) <= 1
        assert seen.rows == 3 * COUNT


def test_questions_of_one_form_are_no_neighbours():
    seen = near_duplicates({"visible": records("q.jsonl", asked(0, "q")), "holdout": records("q.jsonl", asked(1, "q"))})
    assert [one.state for one in _disjoint(seen)] == ["ok"]


def test_a_changed_word_or_case_is_near():
    words = [[f"{word}{at}" for word in "abcdefghijklmnopqrst"] for at in range(COUNT)]
    loud = [{"q": " ".join(row).upper()} for row in words]
    quiet = [{"q": " ".join([*row[:-1], "else"])} for row in words]
    seen = near_duplicates({"visible": records("q.jsonl", loud), "holdout": records("q.jsonl", quiet)})
    assert len(seen.near) == COUNT


def test_ids_alone_are_never_called_disjoint():
    splits = {name: Tree({"ids.txt": File("\n".join(f"{name[0]}{n}" for n in range(9)).encode())}) for name in "ab"}
    seen = near_duplicates(splits)
    (finding,) = _disjoint(seen)
    assert (seen.rows, finding.state) == (0, "warning")
    assert "ids.txt holds ids only" in finding.detail


def test_rows_of_few_kinds_are_said_to_tell_nothing():
    splits = {name: records("k.jsonl", [{"id": f"{name}{n}", "kind": n % 3} for n in range(COUNT)]) for name in "ab"}
    (finding,) = _disjoint(near_duplicates(splits))
    assert finding.state == "warning"
    assert "mostly equal inside one split" in finding.detail


def test_rows_as_equal_as_inside_a_split_warn():
    def drawn(seed):
        draw = np.random.default_rng(seed).integers(0, 200, COUNT)
        return records("k.jsonl", [{"id": f"{seed}-{at}", "word": f"w{value}x"} for at, value in enumerate(draw)])

    seen = near_duplicates({"visible": drawn(0), "holdout": drawn(1)})
    assert (bool(seen.by_chance), seen.equal) == (True, [])
    assert [one.state for one in _disjoint(seen)] == ["warning"]


def test_what_cannot_be_read_is_named():
    splits = {name: Tree({"x.parquet": File(b"PAR1\0" + name.encode() * 30)}) for name in "ab"}
    (finding,) = _disjoint(near_duplicates(splits))
    assert finding.state == "warning"
    assert "x.parquet was compared only as a whole" in finding.detail
    same = near_duplicates(dict.fromkeys("ab", splits["a"]))
    assert same.equal == ["a x.parquet and b x.parquet"]


@pytest.mark.parametrize("archive", ["digits", "prompts", "tool-calls"])
def test_the_shipped_subjects_are_disjoint(archive):
    splits = {name: ARCHIVES / archive / "data" / name for name in ("visible", "holdout", "vault")}
    ids = frozenset(name for folder in splits.values() for name in ids_of(read(folder / "labels")))
    seen = near_duplicates({name: read(folder / "inputs") for name, folder in splits.items()}, ids)
    assert [one.state for one in _disjoint(seen)] == ["ok"]


def test_names_that_labels_use_are_ids_wherever_they_stand():
    def asks(prefix):
        lines = [f"some {at * 37 % 101} words,{prefix}{chr(97 + at % 26)}{chr(97 + at // 26)}" for at in range(COUNT)]
        names = "".join(f"{line.rpartition(',')[2]},{at % 2}\n" for at, line in enumerate(lines))
        return Tree({"q.csv": File("\n".join(lines).encode())}), Tree({"y.csv": File(names.encode())})

    (visible, seen_labels), (holdout, hidden_labels) = asks("v"), asks("h")
    ids = ids_of(seen_labels) | ids_of(hidden_labels)
    assert not near_duplicates({"visible": visible, "holdout": holdout}).equal
    assert len(near_duplicates({"visible": visible, "holdout": holdout}, ids).equal) == COUNT
