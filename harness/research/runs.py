"""Where runs live and how they are named: `.strop/runs/<subject>-<date>-<time>` below the current folder."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from harness.archive.beginning import began
from harness.archive.database import FILE_NAME
from harness.errors import InputError, StorageError

RUNS_VARIABLE = "STROP_RUNS"
STORE, LOCK = "archive.git", "lock"
_DEFAULT = Path(".strop") / "runs"
_ELSEWHERE = "no run was begun; free space, fix permissions, or name another folder with --runs"


def runs_folder(given: Path | None = None) -> Path:
    """The folder of all runs: as given, else from STROP_RUNS, else `.strop/runs`."""
    return given or Path(os.environ.get(RUNS_VARIABLE) or _DEFAULT)


def new_folder(runs: Path, subject: str, now: str, run_id: str | None = None) -> Path:
    """Make the folder of a new run. Raises InputError when `run_id` is taken, StorageError when it cannot be made."""
    name = run_id or f"{_slug(subject)}-{re.sub(r'[-:]', '', now[:19]).replace('T', '-')}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise InputError(f"{name!r} cannot name a run", key="run_id", mend="use letters, digits, '.', '_' and '-'")
    try:
        runs.mkdir(parents=True, exist_ok=True)
        _ignore(runs)
        for attempt in range(1, 1000):
            folder = runs / (name if attempt == 1 else f"{name}-{attempt}")
            try:
                folder.mkdir()
            except FileExistsError:
                if run_id is not None:
                    raise InputError(
                        f"a run {run_id!r} exists already", key="run_id", mend="give another name, or resume it"
                    ) from None
                continue
            return folder.resolve()
    except OSError as error:
        raise StorageError(runs, reason=error.strerror or str(error), mend=_ELSEWHERE) from error
    raise StorageError(runs, reason="a thousand runs were started in this second")


def owner_of(folder: Path) -> str:
    """The label of everything a run leaves on this machine: its name, and its place so that no two runs share it."""
    return f"{folder.name[:40]}-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:10]}"


def run_folders(runs: Path) -> Sequence[Path]:
    """Every run folder, in no order."""
    try:
        return [path for path in runs.iterdir() if (path / FILE_NAME).is_file()]
    except OSError:
        return []


def list_runs(runs: Path) -> Sequence[Path]:
    """Every run folder, the one that began last at the end, by what each run recorded when it began."""
    return sorted(run_folders(runs), key=_born)


def was_a_run(folder: Path) -> bool:
    """Whether anything a run makes lies in `folder`, however damaged."""
    return any((folder / name).exists() for name in (FILE_NAME, STORE, LOCK))


def find_run(name: str | None, runs: Path) -> Path:
    """A run by id, by a prefix only one id has, by path, or the last one. Raises InputError."""
    if name is not None and was_a_run(Path(name)):
        return Path(name).resolve()
    if name is not None and was_a_run(runs / name):
        return (runs / name).resolve()
    known = list_runs(runs)
    if not known:
        raise InputError(f"no runs in {runs}", mend="start one with `strop run SUBJECT`, or point --runs at them")
    if name in (None, "last"):
        return known[-1].resolve()
    matches = [path for path in known if path.name == name] or [path for path in known if path.name.startswith(name)]
    if len(matches) == 1:
        return matches[0].resolve()
    what = "is not the name of a run" if not matches else f"could be {', '.join(path.name for path in matches[:5])}"
    raise InputError(f"{name!r} {what}", key="RUN", mend="`strop list` shows every run")


def _born(folder: Path) -> tuple[str, str]:
    return began(folder) or _named(folder.name), folder.name


def _named(name: str) -> str:
    """When a run was named, of one whose records cannot be read: it is still the last one, and says what is wrong."""
    stamp = re.search(r"-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)(?:-\d+)?$", name)
    return "" if stamp is None else "{}-{}-{}T{}:{}:{}".format(*stamp.groups())


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:40] or "run"


def _ignore(runs: Path) -> None:
    marker = runs / ".gitignore"
    if not marker.exists():
        marker.write_text("*\n")
