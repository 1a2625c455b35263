"""What every format yields: tasks, each with what its candidate box gets and what only its scorer box gets."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.errors import InputError
from harness.evaluation.subject import SplitData
from harness.policy.schema import SubjectFile
from harness.records import Split
from harness.resources import resource
from harness.streams import stream
from harness.tree import File, Tree

_NAME = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True, slots=True)
class Task:
    """One task. `inputs` goes to the candidate box, `labels` to the scorer box only."""

    name: str
    inputs: Mapping[str, bytes]
    labels: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of each split, and the scorer's own files with the command that runs them."""

    splits: Mapping[Split, Sequence[Task]]
    scorer: Tree
    score: tuple[str, ...]
    hidden: frozenset[str] = field(default=frozenset())


Format = Callable[[SubjectFile, Tree, Path], TaskSet]


def _whole(task: Task) -> Hashable:
    return frozenset(task.inputs.items())


def folder_name(text: str) -> str:
    """A task's name as a folder: what is not plain becomes a dash. Raises InputError when nothing is left."""
    name = _NAME.sub("-", text).strip("-.")[:120]
    if not name:
        raise InputError(f"{text[:40]!r} cannot name a task", key="tasks", mend="give each task a plain id")
    return name


def packed(tasks: Iterable[Task]) -> SplitData:
    """The tasks as one split: a folder a task, in inputs and in labels."""
    inputs: dict[str, File] = {}
    labels: dict[str, File] = {}
    for task in tasks:
        inputs |= {f"{task.name}/{path}": File(data) for path, data in task.inputs.items()}
        labels |= {f"{task.name}/{path}": File(data) for path, data in task.labels.items()}
    return SplitData(Tree(inputs), Tree(labels))


def task_names(data: SplitData) -> list[str]:
    """The tasks of a packed split, in order."""
    return sorted({path.split("/", 1)[0] for path in data.inputs})


def dealt(tasks: Sequence[Task], file: SubjectFile) -> dict[Split, Sequence[Task]]:
    """Tasks shuffled by the subject's seed and dealt to visible, holdout and vault. Raises InputError if too few."""
    wanted = {Split.VISIBLE: file.tasks.visible, Split.HOLDOUT: file.tasks.holdout, Split.VAULT: file.tasks.vault}
    if sum(wanted.values()) > len(tasks):
        raise InputError(
            f"{sum(wanted.values())} tasks wanted, {len(tasks)} there are", key="tasks", mend="ask for fewer tasks"
        )
    rng: np.random.Generator = stream(file.tasks.seed, "deal-tasks")
    order = [tasks[int(place)] for place in rng.permutation(len(tasks))]
    splits: dict[Split, Sequence[Task]] = {}
    for split, count in wanted.items():
        if count:
            splits[split] = sorted(order[:count], key=lambda task: task.name)
        order = order[count:]
    return splits


def check_apart(
    splits: Mapping[Split, Sequence[Task]], source: Path, asks: Callable[[Task], Hashable] = _whole
) -> None:
    """Raises InputError when the same is asked, by `asks`, in two splits."""
    seen: dict[Hashable, Split] = {}
    for split, tasks in splits.items():
        for task in tasks:
            other = seen.setdefault(asks(task), split)
            if other != split:
                raise InputError(
                    f"task {task.name!r} is in {other} and in {split}",
                    file=source,
                    key="splits",
                    mend="a task that was seen proves nothing: keep the splits apart",
                )


def shipped_scorer(name: str) -> tuple[Tree, tuple[str, ...]]:
    """A scorer of ours and the command that runs it."""
    path = resource("sandbox") / "scorers" / name
    shared = path.with_name("verdict.py")
    return Tree({one.name: File(one.read_bytes()) for one in (path, shared)}), ("python", name)


def split_folders(file: SubjectFile, source: Path) -> dict[Split, str]:
    """Where each split's tasks lie. Raises InputError when the visible ones are nowhere."""
    folders = {split: folder.strip("/") for split in Split if (folder := file.splits.folder(split)) is not None}
    if Split.VISIBLE not in folders:
        raise InputError("missing", file=source, key="splits.visible", mend="say where the visible tasks lie")
    return folders
