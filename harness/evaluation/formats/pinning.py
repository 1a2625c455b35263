"""A subject of tasks, pinned as data like any other: splits are folders of tasks, the scorer is the format's."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from harness.errors import InputError
from harness.evaluation.formats.base import Format, packed
from harness.evaluation.subject import Subject
from harness.policy.load import SUBJECT_FILE
from harness.policy.locks import Globs
from harness.policy.schema import SubjectFile
from harness.tree import Tree

_FORMATS = {
    "dataset": "harness.evaluation.formats.dataset:load",
    "harbor": "harness.evaluation.formats.folders:harbor",
    "pytest": "harness.evaluation.formats.folders:pytest",
    "humaneval": "harness.evaluation.formats.loaded:humaneval",
    "reasoning_gym": "harness.evaluation.formats.loaded:reasoning_gym",
}


def pin_tasks(file: SubjectFile, whole: Tree, source: Path) -> Subject:
    """Read the tasks and cut the folder into what each box may see. Raises InputError that names key and mend."""
    assert file.eval.format is not None
    if file.eval.score is None and (file.eval.metric, file.eval.direction, file.eval.range) != (
        "solved",
        "max",
        (0, 1),
    ):
        raise InputError(
            "a format's own scorer gives `solved`",
            file=source,
            key="eval.metric",
            mend='metric = "solved", direction = "max", range = [0.0, 1.0]',
        )
    module, _, name = _FORMATS[file.eval.format].partition(":")
    whole = whole.without([*Globs(file.subject.ignore).select(whole), SUBJECT_FILE])
    tasks = cast("Format", getattr(import_module(module), name))(file, whole, source)
    root = whole.without(tasks.hidden)
    editable = Globs(file.subject.editable)
    barren = editable.barren(root)
    if barren:
        raise InputError(f"{barren[0]!r} matches no file", file=source, key="subject.editable", mend="correct the glob")
    scored = replace_score(file, tasks.score)
    splits = {split: packed(found) for split, found in tasks.splits.items()}
    return Subject(scored, root, tasks.scorer, splits)


def replace_score(file: SubjectFile, score: tuple[str, ...]) -> SubjectFile:
    """The subject's file with the scorer's command filled in, as the run records it."""
    return file.model_copy(update={"eval": file.eval.model_copy(update={"score": score})})
