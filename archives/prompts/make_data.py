"""Made data/ once, from reasoning-gym's chain_sum (`pip install reasoning-gym`); `--check` says whether it still does.

Sums and differences of 2 or 3 whole numbers of 1 or 2 digits. No question is in two splits, and no question is in one
split twice. Ids are the same in every split, so that a program cannot tell which one it is on.
"""

import argparse
import json
import random
import sys
from pathlib import Path

SEED = 20260101
SIZES = {"visible": 80, "holdout": 80, "vault": 160}
HERE = Path(__file__).parent


def pool():
    import reasoning_gym  # noqa: PLC0415  only this script needs it

    settings = {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 2}
    data = reasoning_gym.create_dataset("chain_sum", size=3 * sum(SIZES.values()), seed=SEED, **settings)
    found = {}
    for item in data:
        found.setdefault(" ".join(item["question"].split()), str(int(item["answer"])))
    pairs = sorted(found.items())
    random.Random(SEED).shuffle(pairs)
    return pairs


def files():
    pairs, made = pool(), {}
    for split, size in SIZES.items():
        mine, pairs = pairs[:size], pairs[size:]
        if len(mine) < size:
            sys.exit(f"only {len(mine)} different questions left for {split}")
        ids = [f"q{number:03}" for number in range(1, size + 1)]
        inputs = [{"id": key, "question": question} for key, (question, _) in zip(ids, mine, strict=True)]
        labels = [{"id": key, "answer": answer} for key, (_, answer) in zip(ids, mine, strict=True)]
        made[f"{split}/inputs/examples.jsonl"] = inputs
        made[f"{split}/labels/labels.jsonl"] = labels
    return {name: "".join(json.dumps(row) + "\n" for row in rows) for name, rows in made.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for name, text in files().items():
        path = HERE / "data" / name
        if check and (not path.is_file() or path.read_text("utf-8") != text):
            sys.exit(f"{path} is not what this script makes")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
