from pathlib import Path

import pytest

from harness.errors import InputError
from harness.evaluation.subject import pin
from harness.policy.schema import SubjectFile
from harness.records import Split
from harness.tree import File, Tree

SOURCE = Path("strop.toml")
PATHS = [
    "strop.toml",
    "train.py",
    "lib.py",
    "score.py",
    "data/train.csv",
    *(f"data/{split}/{part}/x.csv" for split in ("visible", "holdout", "vault") for part in ("inputs", "labels")),
]


def whole(*extra, without=()):
    return Tree((path, File(path.encode())) for path in [*PATHS, *extra] if path not in without)


def file(subject=None, eval_=None, splits=None):
    return SubjectFile.model_validate(
        {
            "subject": {"name": "toy", "editable": ["train.py"], **(subject or {})},
            "eval": {
                "mode": "split",
                "run": ["python", "train.py"],
                "score": ["python", "score.py"],
                "metric": "error",
                "direction": "min",
                **(eval_ or {}),
            },
            "splits": {
                "visible": "data/visible",
                "holdout": "./data/holdout/",
                "vault": "data/vault",
                **(splits or {}),
            },
        }
    )


def test_the_candidate_sees_no_scorer_no_labels_no_subject_file():
    subject = pin(file(), whole(), SOURCE)
    assert list(subject.root) == ["data/train.csv", "lib.py", "train.py"]
    assert list(subject.scorer) == ["score.py"]
    assert list(subject.splits[Split.HOLDOUT].labels) == ["x.csv"]
    assert subject.locks() == ["data/train.csv", "lib.py"]


def test_ignored_files_are_nowhere():
    subject = pin(file(subject={"ignore": ["lib.py"]}), whole(), SOURCE)
    assert "lib.py" not in subject.root


def test_scorer_files_by_glob():
    subject = pin(file(eval_={"files": ["score.py", "lib.py"]}), whole(), SOURCE)
    assert list(subject.scorer) == ["lib.py", "score.py"]
    assert "lib.py" not in subject.root


@pytest.mark.parametrize(
    ("made", "key", "word"),
    [
        (file(subject={"editable": ["gone.py"]}), "subject.editable", "matches no file"),
        (file(subject={"editable": ["*.py"]}), "subject.editable", "locked"),
        (file(subject={"editable": ["score.py"]}), "subject.editable", "locked"),
        (file(subject={"editable": ["strop.toml"]}), "subject.editable", "locked"),
        (file(subject={"editable": ["data/**"]}), "subject.editable", "locked"),
        (file(subject={"editable": ["**"]}), "subject.editable", "locked"),
        (file(subject={"editable": ["../x"]}), "subject.editable", "not a plain relative glob"),
        (file(subject={"editable": ["/x"]}), "subject.editable", "not a plain relative glob"),
        (file(eval_={"score": ["python", "nothing.py"]}), "eval.score", "names no file"),
        (file(eval_={"files": ["nothing.py"]}), "eval.files", "matches no file"),
        (file(splits={"vault": None}), "splits.vault", "missing"),
        (file(splits={"vault": "data/nothing"}), "splits.vault", "holds no files"),
        (file(splits={"vault": "data/visible"}), "splits.visible", "lies in the vault split"),
        (file(splits={"vault": "data"}), "splits.visible", "lies in the vault split"),
    ],
)
def test_each_mistake_is_one_clear_error(made, key, word):
    with pytest.raises(InputError) as refused:
        pin(made, whole(), SOURCE)
    assert refused.value.key == key
    assert word in str(refused.value)
    assert refused.value.file == "strop.toml"
    assert refused.value.mend


def test_a_split_without_labels():
    with pytest.raises(InputError, match="has no labels"):
        pin(file(), whole(without=["data/holdout/labels/x.csv"]), SOURCE)


def test_missing_splits_can_be_owned_up_to():
    made = file(splits={"holdout": None, "vault": None, "allow_missing": True})
    assert list(pin(made, whole(), SOURCE).splits) == [Split.VISIBLE]


def test_a_split_that_is_there_but_ignored_says_so(tmp_path):
    folder = tmp_path / "data" / "visible" / "inputs"
    folder.mkdir(parents=True)
    (folder / "x.csv").write_text("1")
    gone = [path for path in PATHS if path.startswith("data/visible")]
    with pytest.raises(InputError, match="is there, but none of its files belong") as refused:
        pin(file(), whole(without=gone), tmp_path / "strop.toml")
    assert "git add -f data/visible" in refused.value.mend
    with pytest.raises(InputError, match="holds no files"):
        pin(file(), whole(without=gone), SOURCE)
