"""What can be checked of a reply without a model: facts, length, and who speaks.

A reply has three items: `<id>:facts`, `<id>:length` and `<id>:person`, each within 0 to 1. The metric is the mean over
all items. A judge's opinion is no part of it.
"""

import argparse
import json
import re
import sys
from pathlib import Path

OWN = {"i", "i'm", "i'll", "i've", "me", "my", "mine", "we", "we're", "we'll", "us", "our", "ours"}


def rows(path):
    found = {}
    for row in path.read_text("utf-8").splitlines():
        record = json.loads(row)
        if record["id"] in found:
            sys.exit(f"{path.name} holds {record['id']} twice")
        found[record["id"]] = record
    return found


def words(text):
    return re.findall(r"[\w']+", text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold())


def holds(said, phrase):
    """Whether the words of `phrase` stand side by side in `said`: "7 coppers" is not in "17 coppers"."""
    wanted = words(phrase)
    return any(said[at : at + len(wanted)] == wanted for at in range(len(said) - len(wanted) + 1))


def parts(label, output):
    """(facts, length, person); nothing for a reply that is no text or has no word."""
    said = words(output) if isinstance(output, str) else []
    if not said:
        return 0.0, 0.0, 0.0
    told = sum(holds(said, fact) for fact in label["facts"])
    besides = sum(holds(said, fact) for fact in label["others"])
    facts = told / (len(label["facts"]) + besides)
    least, most = label["words"]
    person = not OWN.isdisjoint(said) and not any(holds(said, phrase) for phrase in label["never"])
    return facts, float(least <= len(said) <= most), float(person)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--labels", type=Path, default=Path("/labels"))
    parser.add_argument("--out", type=Path, default=Path("/out"))
    parser.add_argument("--result", type=Path, default=Path("/result"))
    asked = parser.parse_args()
    labels, said = rows(asked.labels / "labels.jsonl"), rows(asked.out / "outputs.jsonl")
    if said.keys() != labels.keys():
        sys.exit(f"{len(said)} replies for {len(labels)} talks, or other ids")
    items = {}
    for key, label in labels.items():
        facts, length, person = parts(label["answer"], said[key].get("output"))
        items |= {f"{key}:facts": facts, f"{key}:length": length, f"{key}:person": person}
    accuracy = sum(items.values()) / len(items)
    (asked.result / "result.json").write_text(json.dumps({"accuracy": accuracy, "items": items}))


if __name__ == "__main__":
    main()
