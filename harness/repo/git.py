"""Running git so that nothing a user's, a machine's or a candidate's configuration says can take part.

The environment is built from nothing; hooks, fsmonitor, external diffs, lazy fetches and prompts are off.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import MissingEnvironmentError

DEADLINE_S = 120.0

_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.fsync=committed,pack-metadata,reference",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.quotePath=false",
    "core.precomposeUnicode=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "safe.directory=*",
    "submodule.recurse=false",
)
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_DEFAULT_REF_FORMAT": "files",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_AUTHOR_NAME": "strop",
    "GIT_AUTHOR_EMAIL": "strop@localhost",
    "GIT_COMMITTER_NAME": "strop",
    "GIT_COMMITTER_EMAIL": "strop@localhost",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}


class GitError(Exception):
    """git ended with `code`; `said` is the head of its standard error."""

    def __init__(self, argv: Sequence[str], code: int, said: str) -> None:
        super().__init__(f"git {argv[0] if argv else ''} ended with {code}: {said}")
        self.code = code
        self.said = said


def run_git(
    argv: Sequence[str],
    *,
    git_dir: Path | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Standard output of one git command. Blocking; killed after `DEADLINE_S` seconds.

    With `git_dir` that repository is used and nothing is looked for; otherwise git finds the one around `cwd`.
    Raises GitError, and MissingEnvironmentError when there is no git.
    """
    program = shutil.which("git")
    if program is None:
        raise MissingEnvironmentError("git", reason="not found on PATH", mend="install git 2.30 or later")
    environment = dict(_ENVIRONMENT, PATH=os.defpath, **(env or {}))
    if git_dir is not None:
        environment["GIT_DIR"] = str(git_dir)
    command = [program]
    for setting in _CONFIG:
        command += ["-c", setting]
    try:
        done = subprocess.run(  # noqa: S603 - an absolute program, an argument list, an environment from nothing
            [*command, *argv],
            cwd=cwd or git_dir,
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(argv, -signal.SIGKILL, f"no end after {DEADLINE_S:g} s") from None
    if done.returncode != 0:
        raise GitError(argv, done.returncode, done.stderr[:2000].decode("utf-8", "replace").strip())
    return done.stdout
