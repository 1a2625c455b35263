"""A subject pinned as data: what a candidate may see, what the scorer sees, and each split apart."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import InputError
from harness.policy.load import SUBJECT_FILE
from harness.policy.locks import Globs
from harness.policy.schema import SubjectFile
from harness.records import Split
from harness.repo.uncommitted import untracked_match
from harness.tree import Tree


@dataclass(frozen=True, slots=True)
class SplitData:
    """One split. `inputs` may enter a candidate box, `labels` only a scorer box."""

    inputs: Tree
    labels: Tree


@dataclass(frozen=True, slots=True)
class Subject:
    """Everything a run needs of the user's folder, fixed when the run starts.

    `root` is the tree a candidate box gets: no scorer, no splits, no subject file. `scorer` is the pinned eval
    tree (empty in inline mode). `anchors` are outputs whose grade is declared, by their folder; a run has none.
    """

    file: SubjectFile
    root: Tree
    scorer: Tree
    splits: Mapping[Split, SplitData]
    anchors: Mapping[str, Tree] = field(default_factory=dict[str, Tree])

    @property
    def editable(self) -> Globs:
        """The only paths that may differ from the parent."""
        return Globs(self.file.subject.editable)

    def locks(self) -> list[str]:
        """The paths of the candidate's tree that may not differ."""
        return [path for path in self.root if not self.editable(path)]

    def veil(self) -> str:
        """Known only to who has seen every label: it hides what a seed is for from who is given the seed."""
        hidden = [f"{name} {tree.digest}" for name, tree in self.pinned().items() if not name.endswith(".inputs")]
        return hashlib.sha256("\n".join(sorted(hidden)).encode()).hexdigest()

    def pinned(self) -> dict[str, Tree]:
        """Every tree that must stay what it was, by the name the ledger keeps it under."""
        trees = {"scorer": self.scorer}
        for split, data in self.splits.items():
            trees[f"{split}.inputs"] = data.inputs
            trees[f"{split}.labels"] = data.labels
        return trees


def pin(file: SubjectFile, whole: Tree, source: Path) -> Subject:
    """Cut the folder `whole` into what each box may see. `source` is the subject's file, for messages.

    Raises InputError that names the key and the mend.
    """
    ignored = Globs(file.subject.ignore).select(whole)
    whole = whole.without([*ignored, SUBJECT_FILE])
    folders = _split_folders(file, whole, source)
    scorer = _scorer_files(file, whole, source)
    anchors = {one.folder: _anchor(one.folder, whole, source) for one in file.eval.anchor}
    _check_editable(file, whole, scorer, {**folders, **{f"anchor {name}": name for name in anchors}}, source)
    shown = file.eval.mode == "pytest"  # tests are locked, not hidden: who writes to them must know what they ask
    tops = tuple(f"{folder}/" for folder in (*folders.values(), *anchors))
    hidden = [*([] if shown else scorer), *(path for path in whole if path.startswith(tops))]
    splits = {split: _split(file, split, whole.subtree(folder), source) for split, folder in folders.items()}
    return Subject(file, whole.without(hidden), Tree((path, whole[path]) for path in scorer), splits, anchors)


def _anchor(folder: str, whole: Tree, source: Path) -> Tree:
    found = whole.subtree(folder)
    if not found:
        problem, mend = _not_there(source.parent / folder, folder)
        raise InputError(problem, file=source, key="eval.anchor.outputs", mend=mend)
    return found


def _split_folders(file: SubjectFile, whole: Tree, source: Path) -> dict[Split, str]:
    folders: dict[Split, str] = {}
    for split in Split:
        folder = file.splits.folder(split)
        if folder is None:
            continue
        folders[split] = clean = folder.strip("/").removeprefix("./")
        if not whole.subtree(clean):
            problem, mend = _not_there(source.parent / clean, folder)
            raise InputError(problem, file=source, key=f"splits.{split}", mend=mend)
    _check_disjoint(folders, source)
    if file.eval.mode == "split" and not file.splits.allow_missing:
        for split in Split:
            if split not in folders:
                raise InputError(
                    "missing",
                    file=source,
                    key=f"splits.{split}",
                    mend=f"add the {split} folder, or own up to running without it: allow_missing = true",
                )
    if file.eval.mode == "split" and Split.VISIBLE not in folders:
        raise InputError("missing", file=source, key="splits.visible", mend="split mode needs visible examples")
    return folders


def _not_there(place: Path, folder: str) -> tuple[str, str]:
    """(problem, mend) for a split none of whose files belong to the subject."""
    if place.is_dir() and any(place.iterdir()):
        return (
            f"{folder!r} is there, but none of its files belong to the subject: git-ignored or not tracked",
            f"let them belong to it: `git add -f {folder}`, or outside a repository take it out of .gitignore",
        )
    return f"{folder!r} holds no files", "name a folder of this subject"


def _check_disjoint(folders: Mapping[Split, str], source: Path) -> None:
    for split, folder in folders.items():
        for other, elsewhere in folders.items():
            if split != other and f"{folder}/".startswith(f"{elsewhere}/"):
                raise InputError(
                    f"{folder!r} lies in the {other} split",
                    file=source,
                    key=f"splits.{split}",
                    mend="give each split a folder of its own",
                )


def _scorer_files(file: SubjectFile, whole: Tree, source: Path) -> list[str]:
    if file.eval.mode == "pytest":
        return _tests(file, whole, source)
    if file.eval.score is None:
        return []
    if file.eval.files is None:
        named = [word.removeprefix("./") for word in file.eval.score if word.removeprefix("./") in whole]
        if not named:
            raise InputError(
                "names no file of this subject",
                file=source,
                key="eval.score",
                mend='name the scorer, as in ["python", "score.py"], or list its files in eval.files',
            )
        return named
    globs = Globs(file.eval.files)
    _check_barren(globs, whole, source, "eval.files")
    return globs.select(whole)


def _tests(file: SubjectFile, whole: Tree, source: Path) -> list[str]:
    if not file.eval.tests and file.splits.visible is None:
        raise InputError(
            "missing", file=source, key="eval.tests", mend='name the locked tests, as in tests = ["tests/*.py"]'
        )
    globs = Globs(file.eval.tests)
    _check_barren(globs, whole, source, "eval.tests")
    return globs.select(whole)


def _check_editable(
    file: SubjectFile, whole: Tree, scorer: list[str], folders: Mapping[str, str], source: Path
) -> None:
    globs = Globs(file.subject.editable)
    for pattern in globs.patterns:
        if pattern.startswith(("/", "!")) or ".." in pattern.split("/"):
            raise InputError(
                f"{pattern!r} is not a plain relative glob",
                file=source,
                key="subject.editable",
                mend='write paths relative to this folder, such as "train.py" or "src/**/*.py"',
            )
    if globs(SUBJECT_FILE):
        _locked(SUBJECT_FILE, "the subject's own file", source)
    _check_barren(globs, whole, source, "subject.editable")
    for path in globs.select(whole):
        if path in scorer:
            _locked(path, "the scorer's", source)
        for split, folder in folders.items():
            if path.startswith(f"{folder}/"):
                _locked(path, f"part of the {split} split" if split in Split else f"part of {split}", source)


def _locked(path: str, what: str, source: Path) -> None:
    raise InputError(
        f"{path!r} is locked: it is {what}",
        file=source,
        key="subject.editable",
        mend="narrow the glob so that it matches only what the agent may change",
    )


def _check_barren(globs: Globs, whole: Tree, source: Path, key: str) -> None:
    for pattern in globs.barren(whole):
        left = untracked_match(source.parent, pattern)
        raise InputError(
            f"{pattern!r} matches no file" + (f" that git tracks ({left} is untracked)" if left else ""),
            file=source,
            key=key,
            mend=f"`git add {shlex.quote(left)}`: what git does not track is not part of a subject"
            if left
            else "correct the glob, or add the file (git-ignored files are not part of a subject)",
        )


def _split(file: SubjectFile, split: Split, folder: Tree, source: Path) -> SplitData:
    if file.eval.mode != "split":
        return SplitData(folder, Tree())
    inputs, labels = folder.subtree("inputs"), folder.subtree("labels")
    for name, tree in (("inputs", inputs), ("labels", labels)):
        if not tree:
            raise InputError(
                f"has no {name}",
                file=source,
                key=f"splits.{split}",
                mend=f"put them in {file.splits.folder(split)}/{name}/",
            )
    return SplitData(inputs, labels)
