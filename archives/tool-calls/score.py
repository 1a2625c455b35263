"""Function selection and argument extraction scored apart, and together.

A request has two items: `<id>:function`, 1 or 0, and `<id>:arguments`, the share of its arguments that are right (none
where the function is wrong). The metric is the mean over all items: half function selection, half arguments.
"""

import argparse
import json
import sys
from pathlib import Path


def rows(path):
    found = {}
    for row in path.read_text("utf-8").splitlines():
        record = json.loads(row)
        if record["id"] in found:
            sys.exit(f"{path.name} holds {record['id']} twice")
        found[record["id"]] = record
    return found


def plain(value):
    return str(value).strip().casefold()


def share(wanted, given):
    """The part of all arguments, wanted and given, that agree; 1 when none is wanted and none given."""
    if not isinstance(given, dict):
        return 0.0
    names = wanted.keys() | given.keys()
    agreed = sum(1 for name in wanted if name in given and plain(wanted[name]) == plain(given[name]))
    return agreed / len(names) if names else 1.0


def parts(label, output):
    output = output if isinstance(output, dict) else {}
    function = float(output.get("function") == label["function"])
    return function, function * share(label["arguments"], output.get("arguments"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--labels", type=Path, default=Path("/labels"))
    parser.add_argument("--out", type=Path, default=Path("/out"))
    parser.add_argument("--result", type=Path, default=Path("/result"))
    asked = parser.parse_args()
    labels, said = rows(asked.labels / "labels.jsonl"), rows(asked.out / "outputs.jsonl")
    if said.keys() != labels.keys():
        sys.exit(f"{len(said)} answers for {len(labels)} requests, or other ids")
    items = {}
    for key, label in labels.items():
        function, arguments = parts(label["answer"], said[key].get("output"))
        items |= {f"{key}:function": function, f"{key}:arguments": arguments}
    accuracy = sum(items.values()) / len(items)
    (asked.result / "result.json").write_text(json.dumps({"accuracy": accuracy, "items": items}))


if __name__ == "__main__":
    main()
