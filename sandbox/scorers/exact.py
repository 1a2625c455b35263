"""Solved when /out/answer.txt says what the first label says, but for white space and case."""

import json
from pathlib import Path

import verdict


def plain(text):
    return " ".join(str(text).split()).casefold()


label = next(iter(json.loads(Path("/labels/labels.json").read_text()).values()))
answer = Path("/out/answer.txt")
said = answer.read_text(errors="replace") if answer.is_file() else ""
verdict.write(float(bool(plain(said)) and plain(said) == plain(label)))
