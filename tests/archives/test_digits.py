"""The starter subject digits: its data, its script and its strict scorer."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from harness.policy.schema import SubjectFile
from harness.resources import resource

DIGITS = resource("archives") / "digits"
SPLITS = ("visible", "holdout", "vault")


def script(name, *args):
    env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    argv = [sys.executable, "-B", str(DIGITS / name), *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, check=False)


def inputs(split):
    folder = DIGITS / "data" / split / ("" if split == "train" else "inputs")
    return np.load(folder / "images.npy", allow_pickle=False), (folder / "ids.txt").read_text("ascii").split()


def labels(split):
    folder = DIGITS / "data" / split / ("" if split == "train" else "labels")
    rows = (folder / "labels.csv").read_text("ascii").splitlines()
    assert rows[0] == "id,label"
    return dict(row.split(",") for row in rows[1:])


def test_the_subject_file_is_valid_and_names_what_exists():
    subject = SubjectFile.model_validate(tomllib.loads((DIGITS / "strop.toml").read_text()))
    assert subject.subject.editable == ("train.py",)
    assert subject.eval.direction == "min"
    assert (DIGITS / "score.py").is_file()
    for split in SPLITS:
        assert (DIGITS / "data" / split / "inputs").is_dir()
        assert (DIGITS / "data" / split / "labels").is_dir()


def test_the_data_are_small_and_match_their_digests():
    assert script("make_data.py", "--check").returncode == 0
    assert sum(path.stat().st_size for path in (DIGITS / "data").rglob("*") if path.is_file()) < 500_000


def test_no_image_is_in_two_places_and_every_digit_is_in_proportion():
    images = np.concatenate([inputs(split)[0].reshape(-1, 64) for split in ("train", *SPLITS)])
    assert images.shape == (1797, 64)
    assert images.dtype == np.uint8
    assert len(np.unique(images, axis=0)) == 1797
    for split in SPLITS:
        counts = np.bincount([int(label) for label in labels(split).values()])
        assert counts.sum() == 400
        assert counts.min() >= 38
        assert counts.max() <= 42


@pytest.mark.parametrize("split", SPLITS)
def test_ids_tell_neither_split_nor_label(split):
    _, ids = inputs(split)
    assert ids == [f"img-{number:04d}" for number in range(1, 401)]
    truth = labels(split)
    assert list(truth) == ids
    order = np.array([int(truth[one]) for one in ids])
    assert abs(np.corrcoef(np.arange(400), order)[0, 1]) < 0.15


def test_the_script_is_deterministic_mediocre_and_scored_per_image(tmp_path):
    found = []
    for turn in ("a", "b"):
        out = tmp_path / turn
        assert script("train.py", "--data", DIGITS / "data/visible/inputs", "--out", out).returncode == 0
        found.append((out / "predictions.csv").read_bytes())
    assert found[0] == found[1]
    where = ("--labels", DIGITS / "data/visible/labels", "--out", tmp_path / "a", "--result", tmp_path)
    assert script("score.py", *where).returncode == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert set(result) == {"error", "items"}
    assert list(result["items"]) == inputs("visible")[1]
    assert set(result["items"].values()) == {0, 1}
    assert result["error"] == sum(result["items"].values()) / 400
    assert 0.2 < result["error"] < 0.35


def test_the_subject_needs_numpy_and_the_standard_library_only():
    for name, allowed in (("train.py", {"numpy"}), ("score.py", set())):
        tree = ast.parse((DIGITS / name).read_text())
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        assert {one.split(".")[0] for one in names} - set(sys.stdlib_module_names) <= allowed


GOOD = "id,label\n" + "".join(f"img-{number:04d},{number % 10}\n" for number in range(1, 401))

HOSTILE = {
    "nothing": b"",
    "no header": GOOD[9:].encode(),
    "no last newline": GOOD[:-1].encode(),
    "missing id": GOOD.replace("img-0007,7\n", "").encode(),
    "unknown id": (GOOD + "img-0401,1\n").encode(),
    "same id twice": (GOOD + "img-0007,7\n").encode(),
    "ten": GOOD.replace("img-0007,7", "img-0007,10").encode(),
    "negative": GOOD.replace("img-0007,7", "img-0007,-7").encode(),
    "float": GOOD.replace("img-0007,7", "img-0007,7.0").encode(),
    "blank line": GOOD.replace("img-0007", "\nimg-0007").encode(),
    "spaces": GOOD.replace("img-0007,7", "img-0007, 7").encode(),
    "carriage return": GOOD.replace("\n", "\r\n").encode(),
    "other digits": GOOD.replace("img-0007,7", "img-0007,\N{ARABIC-INDIC DIGIT SEVEN}").encode(),
    "byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "not text": b"\xff\xfe" + GOOD.encode("utf-16-le"),
    "null byte": GOOD.replace("img-0007,7", "img-0007,7\0").encode(),
    "too big": (GOOD + "x" * 70_000 + "\n").encode(),
}


def judged(tmp_path, out):
    result = tmp_path / "result"
    result.mkdir()
    done = script("score.py", "--labels", DIGITS / "data/vault/labels", "--out", out, "--result", result)
    return done, list(result.iterdir())


@pytest.mark.parametrize("kind", HOSTILE)
def test_anything_but_exact_answers_is_refused_in_one_line(tmp_path, kind):
    out = tmp_path / "out"
    out.mkdir()
    (out / "predictions.csv").write_bytes(HOSTILE[kind])
    done, written = judged(tmp_path, out)
    assert (done.returncode, done.stdout, written) == (1, "", [])
    assert done.stderr.startswith("refused: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["missing", "folder", "symlink", "fifo", "other name"])
def test_only_a_regular_file_of_the_right_name_is_read(tmp_path, kind):
    out = tmp_path / "out"
    out.mkdir()
    place = out / "predictions.csv"
    (tmp_path / "elsewhere").write_text(GOOD)
    match kind:
        case "folder":
            place.mkdir()
        case "symlink":
            place.symlink_to(tmp_path / "elsewhere")
        case "fifo":
            os.mkfifo(place)
        case "other name":
            (out / "Predictions.csv").write_text(GOOD)
    done, written = judged(tmp_path, out)
    assert (done.returncode, written) == (1, [])
    assert done.stderr.startswith("refused: ")
    assert done.stderr.count("\n") == 1


def test_well_formed_answers_in_any_order_are_scored(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    rows = [f"{one},{label}\n" for one, label in reversed(labels("vault").items())]
    rows[0] = f"img-0400,{(int(labels('vault')['img-0400']) + 1) % 10}\n"
    (out / "predictions.csv").write_text("".join(["id,label\n", *rows]))
    done, written = judged(tmp_path, out)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(written[0].read_text())
    assert result["error"] == 1 / 400
    assert [one for one, wrong in result["items"].items() if wrong] == ["img-0400"]
