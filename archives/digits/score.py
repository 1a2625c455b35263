"""Score predictions against labels. Runs where no candidate code runs; stdlib only.

Reads /labels/labels.csv and /out/predictions.csv, writes /result/result.json:
{"error": share of wrong answers, "items": {id: 1 if wrong else 0}}. Anything else than exactly one well-formed
answer for every id ends with exit code 1, one line, and no result.
"""

import argparse
import json
import os
import re
import stat
import sys
from pathlib import Path

NAME = "predictions.csv"
HEADER = "id,label"
MAX_BYTES = 64 * 1024
ROW = re.compile(r"([a-z]{1,8}-[0-9]{1,6}),([0-9])", re.ASCII)


class RefusedError(Exception):
    """What is wrong with the predictions, in one line."""


def read_plain(folder):
    """The bytes of the predictions file: a regular file, never followed, never waited for, never too big."""
    try:
        handle = os.open(Path(folder) / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RefusedError(f"no {NAME} was written") from None
    except OSError as error:
        raise RefusedError(f"{NAME} cannot be opened: {os.strerror(error.errno)}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise RefusedError(f"{NAME} is not a regular file")
    with os.fdopen(handle, "rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise RefusedError(f"{NAME} holds more than {MAX_BYTES} bytes")
    return data


def parse(data):
    """Rows of `id,label` below the header, as a dict of id -> digit."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{NAME} is not ASCII at byte {error.start}") from None
    lines = text.split("\n")
    if lines.pop() != "" or not lines:
        raise RefusedError(f"{NAME} does not end with a newline")
    if lines[0] != HEADER:
        raise RefusedError(f"{NAME} line 1 is not {HEADER!r}")
    answers = {}
    for number, line in enumerate(lines[1:], start=2):
        row = ROW.fullmatch(line)
        if row is None:
            raise RefusedError(f"{NAME} line {number} is not `id,label` with a label 0 to 9")
        if row[1] in answers:
            raise RefusedError(f"{NAME} line {number} answers {row[1]} again")
        answers[row[1]] = int(row[2])
    return answers


def score(truth, answers):
    """Error and items; the answers must be for exactly the ids of the truth."""
    if missing := sorted(truth.keys() - answers.keys()):
        raise RefusedError(f"{NAME} has no answer for {len(missing)} ids, {missing[0]} the first")
    if unknown := sorted(answers.keys() - truth.keys()):
        raise RefusedError(f"{NAME} answers {len(unknown)} unknown ids, {unknown[0]} the first")
    items = {one: int(answers[one] != label) for one, label in truth.items()}
    return {"error": sum(items.values()) / len(items), "items": items}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", default="/labels")
    parser.add_argument("--out", default="/out")
    parser.add_argument("--result", default="/result")
    args = parser.parse_args()
    truth = parse((Path(args.labels) / "labels.csv").read_bytes())
    try:
        result = score(truth, parse(read_plain(args.out)))
    except RefusedError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 1
    (Path(args.result) / "result.json").write_text(json.dumps(result) + "\n", "ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
