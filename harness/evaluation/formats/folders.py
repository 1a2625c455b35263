"""Formats whose tasks are folders: Harbor and Terminal-Bench tasks, and pytest suites.

Harbor: `task.toml`, `instruction.md`, `environment/` (what the agent works on), `tests/` (the verifier). The candidate
finds the instruction and the environment's files in `/data`, works in `/out`, and never sees `tests/`. The verifier
runs in a fresh box on what was left in `/out`; only the reward that it writes itself counts. A `Dockerfile` is not
built: environments are the files beside it.

pytest: `instruction.md`, `starter/` (optional), `tests/test_*.py`. The same, and the share of tests that pass counts.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import InputError
from harness.evaluation.formats.base import Task, TaskSet, check_apart, folder_name, shipped_scorer, split_folders
from harness.policy.schema import SubjectFile
from harness.records import Split
from harness.tree import Tree

_VERIFIERS = ("tests/test.sh", "tests/run-tests.sh", "run-tests.sh", "tests/test.py")


def harbor(file: SubjectFile, whole: Tree, source: Path) -> TaskSet:
    """Task folders with a verifier. Raises InputError naming the folder that lacks something."""
    scorer, score = shipped_scorer("harbor.py")
    return _folders(file, whole, source, "environment", TaskSet({}, scorer, score))


def pytest(file: SubjectFile, whole: Tree, source: Path) -> TaskSet:
    """Task folders with tests. Raises InputError naming the folder that lacks something."""
    scorer, score = shipped_scorer("suite.py")
    return _folders(file, whole, source, "starter", TaskSet({}, scorer, score))


def _folders(file: SubjectFile, whole: Tree, source: Path, start: str, base: TaskSet) -> TaskSet:
    splits: dict[Split, list[Task]] = {}
    hidden: set[str] = set()
    for split, folder in split_folders(file, source).items():
        below = whole.subtree(folder)
        names = sorted({path.split("/", 1)[0] for path in below if "/" in path})
        if not names:
            raise InputError(f"{folder!r} holds no task folders", file=source, key=f"splits.{split}")
        splits[split] = [_task(f"{folder}/{name}", below.subtree(name), start) for name in names]
        hidden |= {f"{folder}/{path}" for path in below}
    check_apart(splits, source)
    return TaskSet(splits, base.scorer, base.score, frozenset(hidden))


def _task(place: str, tree: Tree, start: str) -> Task:
    if "instruction.md" not in tree:
        raise InputError("has no instruction.md", file=place, mend="say there what the agent is to do")
    if start == "environment" and not any(path in tree for path in _VERIFIERS):
        raise InputError("has no verifier", file=place, mend=f"add one of {', '.join(_VERIFIERS)}")
    if start == "starter" and not any(path.startswith("tests/test_") for path in tree):
        raise InputError("has no tests/test_*.py", file=place, mend="add the tests that decide")
    inputs = {"instruction.md": tree["instruction.md"].data}
    inputs |= {f"workspace/{path}": entry.data for path, entry in tree.subtree(start).items() if path != "Dockerfile"}
    labels = {f"tests/{path}": entry.data for path, entry in tree.subtree("tests").items()}
    labels |= {path: tree[path].data for path in ("run-tests.sh", "task.toml") if path in tree}
    return Task(folder_name(place.rsplit("/", 1)[1]), inputs, labels)
