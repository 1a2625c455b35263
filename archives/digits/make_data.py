"""Split the UCI handwritten digits once, into data/. Kept so that anybody can check where the files come from.

    pip install scikit-learn && python make_data.py        # writes data/ again, byte for byte
    python make_data.py --check                            # compares data/ with data/digests.txt

Every split is stratified by digit. Two equal images never land in different splits. The rows of a split are
shuffled before they are named, so that neither an id nor a position says anything about a label, and ids look the
same in every split.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import random
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
SPLIT_SEED = 20_260_101
HIDDEN_SIZE = 400
SPLITS = ("visible", "holdout", "vault")


def load():
    """The 1,797 images of the UCI test file as (n, 8, 8) uint8 of 0..16, and their labels as (n,) uint8."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - only making the data again needs it

    digits = load_digits()
    return digits.images.astype(np.uint8), digits.target.astype(np.uint8)


def distinct(images, labels):
    """Indices of one image of every group of equal images; a group with two labels goes altogether."""
    groups = defaultdict(list)
    for index, image in enumerate(images):
        groups[image.tobytes()].append(index)
    return [group[0] for group in groups.values() if len({int(labels[i]) for i in group}) == 1]


def split(indices, labels, rng):
    """Shares of HIDDEN_SIZE for each hidden split, the rest for train; every digit in proportion."""
    by_digit = defaultdict(list)
    for index in indices:
        by_digit[int(labels[index])].append(index)
    line = []
    for digit in sorted(by_digit):
        rng.shuffle(by_digit[digit])
        line += by_digit[digit]
    # dealing the line, sorted by digit, in turn gives every split each digit in proportion
    sizes = {**dict.fromkeys(SPLITS, HIDDEN_SIZE), "train": len(line) - len(SPLITS) * HIDDEN_SIZE}
    shares = {name: [] for name in sizes}
    for place, index in enumerate(line, start=1):
        behind = {name: sizes[name] * place / len(line) - len(shares[name]) for name in sizes}
        shares[max(behind, key=behind.get)].append(index)
    for members in shares.values():
        rng.shuffle(members)
    return shares


def files(images, labels, shares):
    """Path below data/ -> bytes."""
    made = {}
    for name, members in shares.items():
        ids = [f"img-{number:04d}" for number in range(1, len(members) + 1)]
        inputs, truth = ("train", "train") if name == "train" else (f"{name}/inputs", f"{name}/labels")
        buffer = io.BytesIO()
        np.save(buffer, images[members], allow_pickle=False)
        made[f"{inputs}/images.npy"] = buffer.getvalue()
        made[f"{inputs}/ids.txt"] = "".join(f"{one}\n" for one in ids).encode()
        rows = [f"{one},{int(labels[index])}\n" for one, index in zip(ids, members, strict=True)]
        made[f"{truth}/labels.csv"] = "".join(["id,label\n", *rows]).encode()
    return made


def digest_lines(contents):
    """One `sha256  path` line for every file, ordered by path."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in sorted(contents.items()))


def check():
    """Compare data/ with its digests. Returns the lines that differ."""
    present = {
        path.relative_to(DATA).as_posix(): path.read_bytes()
        for path in DATA.rglob("*")
        if path.is_file() and path.name != "digests.txt"
    }
    wanted = set((DATA / "digests.txt").read_text("ascii").splitlines())
    return sorted(wanted ^ set(digest_lines(present).splitlines()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare data/ with data/digests.txt")
    if parser.parse_args().check:
        differing = check()
        sys.exit("differs:\n" + "\n".join(differing) if differing else 0)
    images, labels = load()
    made = files(images, labels, split(distinct(images, labels), labels, random.Random(SPLIT_SEED)))
    for path, data in made.items():
        (DATA / path).parent.mkdir(parents=True, exist_ok=True)
        (DATA / path).write_bytes(data)
    (DATA / "digests.txt").write_text(digest_lines(made), "ascii")


if __name__ == "__main__":
    main()
