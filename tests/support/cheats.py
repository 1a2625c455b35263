"""Two subjects whose eval runs beside the candidate: an inline copy of the toy, and one judged by pytest."""

from pathlib import Path

from support.toy import STROP, TRAIN

EVALUATE = """\
import json
from pathlib import Path

import train

train.main("/data/inputs", "/out")
labels = dict(row.split(",") for row in Path("/data/labels/labels.csv").read_text().split())
said = dict(row.split(",") for row in Path("/out/predictions.csv").read_text().split())
items = {id: min(1.0, abs(float(said[id]) - float(label)) / 100) for id, label in labels.items()}
error = sum(items.values()) / len(items)
print(f"error: {error}")
Path("/result/result.json").write_text(json.dumps({"error": error, "items": items}))
"""

INLINE_TRAIN = """\
from pathlib import Path

VALUE = 20


def main(data, out):
    ids = Path(data, "ids.txt").read_text().split()
    Path(out, "predictions.csv").write_text("".join(f"{id},{VALUE}\\n" for id in ids))
"""

SOLUTION = """\
def distinct(values):
    return sorted(set(values))


def largest(values):
    return values[0]
"""

SUITE = """\
[subject]
name = "exercise"
editable = ["solution.py"]
[eval]
mode = "pytest"
tests = ["tests/*.py"]
metric = "failing"
direction = "min"
range = [0.0, 1.0]
timeout_s = 60
[splits]
holdout = "hidden"
allow_missing = true
"""

TESTS = """\
import pytest
from solution import distinct, largest


@pytest.mark.parametrize("values", [[1, 2, 2], [], [3, 1]])
def test_distinct(values):
    assert distinct(values) == sorted(set(values))


def test_largest_of_many():
    assert largest([1, 5, 3]) == 5


def test_largest_of_one():
    assert largest([4]) == 4
"""


def make_inline(folder: Path, *, train=INLINE_TRAIN, strop=None, result="file") -> Path:
    """The toy with its eval beside it."""
    from support.toy import make_toy

    make_toy(folder, train=train)
    (folder / "score.py").unlink()
    (folder / "evaluate.py").write_text(EVALUATE)
    text = strop or STROP.replace('mode = "split"', f'mode = "inline"\nresult = "{result}"').replace(
        'run = ["python", "train.py"]\nscore = ["python", "score.py"]', 'run = ["python", "evaluate.py"]'
    )
    (folder / "strop.toml").write_text(text)
    return folder


def make_suite(folder: Path, *, solution=SOLUTION, tests=TESTS, strop=SUITE) -> Path:
    """An exercise with visible and hidden tests."""
    for part in ("tests", "hidden"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "solution.py").write_text(solution)
    (folder / "tests" / "test_visible.py").write_text(tests)
    (folder / "hidden" / "test_hidden.py").write_text(tests.replace("[1, 5, 3]", "[2, 9, 4]").replace("== 5", "== 9"))
    (folder / "strop.toml").write_text(strop)
    return folder


__all__ = ["EVALUATE", "INLINE_TRAIN", "SOLUTION", "SUITE", "TESTS", "TRAIN", "make_inline", "make_suite"]
