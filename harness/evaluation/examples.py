"""One example of a split by itself: the unit that prompt optimizers ask for.

A split whose inputs hold `examples.jsonl` (one JSON object a line, with an `id`) can be cut into its examples; labels,
where they are lines with an `id` too, are cut the same way. Everything else in the split stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from harness.errors import InputError
from harness.evaluation.split import SplitEvaluation
from harness.evaluation.subject import SplitData, Subject
from harness.records import Outcome, Split, Status
from harness.tree import File, Tree
from harness.untrusted import clean

EXAMPLES, OUTPUTS = "examples.jsonl", "outputs.jsonl"
_MOST_SAID = 4_000

Records = dict[str, dict[str, Any]]


def records(tree: Tree, name: str) -> Records:
    """The lines of one JSON-lines file by id, in order. Raises InputError."""
    if name not in tree:
        return {}
    return read_records(tree[name].data, name)


def read_records(data: bytes, name: str) -> Records:
    """JSON lines, each an object with its own `id`. Raises InputError that names the line."""
    found: Records = {}
    for number, row in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not row.strip():
            continue
        try:
            record: Any = json.loads(row)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"line {number} is not JSON: {error}", file=name, mend="write one JSON object a line"
            ) from None
        if not isinstance(record, dict) or not isinstance(record.get("id"), str):  # pyright: ignore[reportUnknownMemberType]
            raise InputError(f"line {number} has no text `id`", file=name, mend='as in {"id": "a1", ...}')
        found[record["id"]] = cast("dict[str, Any]", record)
    return found


def inputs_of(data: SplitData) -> Records:
    """The examples of a split as a program sees them."""
    return records(data.inputs, EXAMPLES)


def labels_of(data: SplitData) -> Records:
    """The labels of a split by example: every JSON-lines file of the labels, joined."""
    found: Records = {}
    for name in data.labels:
        if name.endswith(".jsonl"):
            for key, record in records(data.labels, name).items():
                found.setdefault(key, {}).update(record)
    return found


def only(subject: Subject, split: Split, example: str) -> Subject:
    """`subject` with nothing of `split` but one example."""
    data = subject.splits[split]
    cut = SplitData(_cut(data.inputs, example), _cut(data.labels, example))
    return replace(subject, splits={**subject.splits, split: cut})


def _cut(tree: Tree, example: str) -> Tree:
    files: dict[str, File] = dict(tree)
    for name in tree:
        if name.endswith(".jsonl"):
            kept = records(tree, name).get(example)
            files[name] = File(b"" if kept is None else json.dumps(kept).encode() + b"\n")
    return Tree(files)


class ExampleEvaluation(SplitEvaluation):
    """A split evaluation that also tells what the program said: `detail` is its output, as untrusted text."""

    async def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """See `Evaluation`."""
        outcome, written = await self.produce(tree, split, seed)
        if outcome.status is not Status.OK:
            return outcome
        scored = await self.grade(outcome, written, split)
        said = next((entry.data for entry in written if entry.path == OUTPUTS.encode()), b"")
        return scored if scored.detail else replace(scored, detail=clean(said[:_MOST_SAID], _MOST_SAID))


@dataclass(frozen=True, slots=True)
class Said:
    """What a program wrote for one example: `output`, and what each module did on the way."""

    output: str
    calls: tuple[tuple[str, str, str], ...] = ()


def said_of(detail: str) -> Said:
    """An example rollout's detail: a line {"id", "output", "trace": [{"module", "given", "said"}]}, or any text."""
    try:
        record: Mapping[str, Any] = json.loads(detail.strip().splitlines()[0]) if detail.strip() else {}
        calls = [(str(c["module"]), str(c["given"]), str(c["said"])) for c in record.get("trace", ())]
        return Said(_text(record.get("output", "")), tuple(calls))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return Said(detail)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
