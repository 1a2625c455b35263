"""Rows of JSONL: the candidate gets a row without its labels, a scorer gets the labels.

    [splits]
    visible = "data/visible.jsonl"        # {"id": "a1", "question": "...", "answer": "..."}
    [tasks]
    labels = ["answer"]                   # keys that only the scorer sees

The candidate finds `/data/task.json` and writes `/out/answer.txt`. Without `eval.score` the answer must equal the row's
first label but for white space and case.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from harness.errors import InputError
from harness.evaluation.formats.base import Task, TaskSet, check_apart, folder_name, shipped_scorer, split_folders
from harness.policy.schema import SubjectFile
from harness.tree import Tree


def load(file: SubjectFile, whole: Tree, source: Path) -> TaskSet:
    """The rows of each split's file. Raises InputError that names file and line."""
    splits = {split: rows(file, whole, path, source) for split, path in split_folders(file, source).items()}
    hidden = frozenset(path for path in split_folders(file, source).values())
    check_apart(splits, source, _question)
    if file.eval.score is None:
        scorer, score = shipped_scorer("exact.py")
        return TaskSet(splits, scorer, score, hidden)
    named = [
        word.removeprefix("./") for word in (file.eval.files or file.eval.score) if word.removeprefix("./") in whole
    ]
    scorer = Tree((path, whole[path]) for path in named)
    return TaskSet(splits, scorer, file.eval.score, hidden | set(named))


def rows(file: SubjectFile, whole: Tree, path: str, source: Path) -> list[Task]:
    """One split's tasks. A row needs a unique id, or gets its line number."""
    if path not in whole:
        raise InputError(f"{path!r} is no file of this subject", file=source, key="splits", mend="name a .jsonl file")
    found: dict[str, Task] = {}
    for number, text in enumerate(whole[path].data.decode("utf-8", "replace").splitlines(), start=1):
        if not text.strip():
            continue
        task = _task(file, f"{path}:{number}", text, number)
        if task.name in found:
            raise InputError(f"the id {task.name!r} is there twice", file=f"{path}:{number}", mend="make ids unique")
        found[task.name] = task
    if not found:
        raise InputError("has no rows", file=path, mend="write one JSON object a line")
    return list(found.values())


def _task(file: SubjectFile, place: str, text: str, number: int) -> Task:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file=place, mend="write one JSON object a line") from error
    if not isinstance(row, dict):
        raise InputError("not a JSON object", file=place, mend="write one JSON object a line")
    table = cast("dict[str, Any]", row)
    labels = {key: table[key] for key in file.tasks.labels if key in table}
    if not labels:
        raise InputError(
            f"has none of the labels {', '.join(file.tasks.labels)}", file=place, mend="name them under tasks.labels"
        )
    shown = {key: value for key, value in table.items() if key not in labels}
    return Task(
        folder_name(str(table.get("id", f"row-{number:05d}"))),
        {"task.json": json.dumps(shown, sort_keys=True, ensure_ascii=False).encode()},
        {"labels.json": json.dumps(labels, ensure_ascii=False).encode()},
    )


def _question(task: Task) -> str:
    """What is asked, by whatever id."""
    row = json.loads(task.inputs["task.json"])
    return json.dumps({key: value for key, value in row.items() if key != "id"} or row, sort_keys=True)
