"""Exact match on whole numbers: 1 or 0 a question, nothing in between. Strict about what it reads."""

import argparse
import json
import re
import sys
from pathlib import Path

NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)


def rows(path):
    found = {}
    for row in path.read_text("utf-8").splitlines():
        record = json.loads(row)
        if record["id"] in found:
            sys.exit(f"{path.name} holds {record['id']} twice")
        found[record["id"]] = record
    return found


def right(said, answer):
    return isinstance(said, str) and NUMBER.fullmatch(said) is not None and int(said) == int(answer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--labels", type=Path, default=Path("/labels"))
    parser.add_argument("--out", type=Path, default=Path("/out"))
    parser.add_argument("--result", type=Path, default=Path("/result"))
    asked = parser.parse_args()
    labels = rows(asked.labels / "labels.jsonl")
    said = rows(asked.out / "outputs.jsonl")
    if said.keys() != labels.keys():
        sys.exit(f"{len(said)} answers for {len(labels)} questions, or other ids")
    items = {key: float(right(said[key].get("output"), label["answer"])) for key, label in labels.items()}
    result = {"accuracy": sum(items.values()) / len(items), "items": items}
    (asked.result / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
