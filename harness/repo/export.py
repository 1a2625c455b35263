"""Taking a tree home: into a new folder, as a patch file, or as a branch of the user's own repository.

Nothing that exists is overwritten but a patch that was written here and not touched since; no link is followed, and no
working tree, index or hook of the user's repository takes part. Blocking: call these in a thread.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InputError
from harness.repo.diff import patch
from harness.repo.git import GitError, run_git
from harness.tree import File, Tree

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# git apply passes over what stands before a patch
_MARK = "Written by strop export: {says}; sha256 of what follows {digest}\n\n"
_OURS = re.compile(rb"Written by strop export: [^\n]*; sha256 of what follows ([0-9a-f]{64})\n\n")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a subject's folder stands in its repository. `prefix` ends in a slash, or is empty at the top."""

    commit: str
    prefix: str


def origin(subject: Path) -> Origin | None:
    """The commit the subject's folder is on; None outside a repository and before its first commit."""
    try:
        commit = _say(subject, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return Origin(commit, _say(subject, "rev-parse", "--show-prefix"))
    except (GitError, OSError):
        return None


def write_folder(tree: Tree, target: Path) -> None:
    """The tree's files below `target`, a new folder or an empty one. Raises InputError."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            top = _closed(stack, os.open(target, _FOLDER))
            if os.listdir(top):  # noqa: PTH208 - of an open folder, not of a path
                mend = f"name a folder that does not exist yet, as in {_free(target)}"
                raise InputError("is not empty", file=target, mend=mend)
            for path, file in tree.items():
                _write_file(top, path, file)
    except OSError as error:
        raise _unwritable(target, error) from error


def write_patch(
    old: Tree, new: Tree, target: Path, *, prefix: str = "", says: str = "a patch", force: bool = False
) -> None:
    """A file that `git apply` takes, run in the subject's folder; `says` stands in its first line.

    It may take the place of a patch written here before, as long as nobody changed that one; with `force` of any file.
    Raises InputError when something else is there. `prefix` is the subject's place in its repository, as `origin` tells
    it: git reads a patch's paths from the top.
    """
    body = patch(_below(prefix, old), _below(prefix, new))
    data = _MARK.format(says=" ".join(says.split()), digest=hashlib.sha256(body).hexdigest()).encode() + body
    try:
        if not os.path.lexists(target):
            _write_new(target, data)
        elif _replaceable(target, force):
            beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
            _write_new(beside, data)
            beside.replace(target)
        else:
            forced = "; --force replaces it" if stat.S_ISREG(target.lstat().st_mode) else ""
            raise InputError(
                "is there, and no patch as strop wrote it",
                file=target,
                mend=f"name a new file, as in {_free(target)}{forced}",
            )
    except OSError as error:
        raise _unwritable(target, error) from error


def _replaceable(target: Path, force: bool) -> bool:
    """Whether it is a file, no link, and holds a patch as it was written here. Raises OSError."""
    if not stat.S_ISREG(target.lstat().st_mode):
        return False
    if force:
        return True
    with os.fdopen(os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        data = file.read()
    mark = _OURS.match(data)
    return mark is not None and hashlib.sha256(data[mark.end() :]).hexdigest().encode() == mark[1]


def _write_new(target: Path, data: bytes) -> None:
    with os.fdopen(os.open(target, _NEW, 0o666), "wb") as file:
        file.write(data)


def _free(target: Path) -> Path:
    """The first of better-2.patch, better-3.patch and so on that is not there."""
    names = (target.with_name(f"{target.stem}-{number}{target.suffix}") for number in range(2, 1000))
    return next((one for one in names if not os.path.lexists(one)), target)


def write_branch(subject: Path, old: Tree, new: Tree, *, branch: str, message: str, base: str | None = None) -> str:
    """A new branch with one commit on top of `base` (HEAD when None) that takes what differs between the trees.

    Whole files are taken: where the working tree was ahead of `base` when the run began, those files' edits come along.
    The commit's id. Raises InputError when the branch exists, its name is none, or nothing differs.
    """
    changed = {path: new.get(path) for path in sorted(old.keys() | new.keys()) if old.get(path) != new.get(path)}
    if not changed:
        raise InputError("nothing differs from the root", mend="export another variant")
    try:
        here = origin(subject)
        if not subject.is_dir():
            raise InputError("is no longer there", file=subject, mend="put it back, or export a folder or a patch")
        if here is None:
            raise InputError("is not on a commit of a git repository", file=subject, mend="export a folder or a patch")
        _check_name(subject, branch)
        parent = _commit(subject, base or here.commit)
        tree_id = _tree_with(subject, parent, here.prefix, changed)
        commit = _say(subject, "commit-tree", tree_id, "-p", parent, stdin=message.encode())
        orders = f"create refs/heads/{branch} {commit}\n"
        _say(subject, "update-ref", "-m", "strop export", "--stdin", stdin=orders.encode())
    except GitError as error:
        raise InputError(f"git refused: {error.said}", file=subject, mend="export a folder or a patch") from error
    return commit


def _below(prefix: str, tree: Tree) -> Tree:
    return Tree((prefix + path, file) for path, file in tree.items()) if prefix else tree


def _tree_with(subject: Path, parent: str, prefix: str, changed: Mapping[str, File | None]) -> str:
    """The tree of `parent` with the changed files laid over it, made in an index of its own."""
    nothing = "0" * len(parent)
    rows = [f"0 {nothing}\t{prefix}{path}" for path, file in changed.items() if file is None]
    for path, file in changed.items():
        if file is not None:
            blob = _say(subject, "hash-object", "-w", "--no-filters", "--stdin", stdin=file.data)
            rows.append(f"{'100755' if file.executable else '100644'} {blob}\t{prefix}{path}")
    with tempfile.TemporaryDirectory(prefix="strop-export-") as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        _say(subject, "read-tree", parent, env=env)
        _say(subject, "update-index", "-z", "--index-info", stdin=("\0".join(rows) + "\0").encode(), env=env)
        return _say(subject, "write-tree", env=env)


def _check_name(subject: Path, branch: str) -> None:
    try:
        _say(subject, "check-ref-format", "--branch", branch)
    except GitError as error:
        raise InputError(f"{branch!r} cannot name a branch", key="branch", mend="name it like strop/best") from error
    try:
        _say(subject, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}")
    except GitError:
        return
    mend = f"name another one, as in {branch}-2, or `git branch -D {branch}` first"
    raise InputError(f"the branch {branch!r} exists", file=subject, key="branch", mend=mend)


def _commit(subject: Path, base: str) -> str:
    try:
        return _say(subject, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    except GitError as error:
        mend = "fetch it, or export a folder or a patch"
        raise InputError(f"the commit {base} is not in this repository", file=subject, mend=mend) from error


def _say(subject: Path, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
    return os.fsdecode(run_git(argv, cwd=subject, stdin=stdin, env=env)).removesuffix("\n")


def _write_file(top: int, path: str, file: File) -> None:
    *folders, name = path.split("/")
    with ExitStack() as stack:
        here = top
        for folder in folders:
            with suppress(FileExistsError):
                os.mkdir(folder, dir_fd=here)
            here = _closed(stack, os.open(folder, _FOLDER, dir_fd=here))
        handle = os.open(name, _NEW, 0o777 if file.executable else 0o666, dir_fd=here)
        with os.fdopen(handle, "wb") as opened:
            opened.write(file.data)


def _closed(stack: ExitStack, handle: int) -> int:
    stack.callback(os.close, handle)
    return handle


def _unwritable(target: Path, error: OSError) -> InputError:
    return InputError(f"cannot be written: {error.strerror}", file=target, mend="name a new place that can be written")
