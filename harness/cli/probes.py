"""Probes: each does the thing a run will need, once, in a temporary folder, and says how to mend what failed."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from harness.errors import MissingEnvironmentError, StropError
from harness.untrusted import line

if TYPE_CHECKING:
    from harness.box.choose import BoxName

FREE_MB_NEEDED = 1024
PROBE_TIMEOUT_S = 60.0
PYTHON_TIMEOUT_S = 20.0
BOX_TIMEOUT_S = 120.0
OTHER_BOX = "try another box with --box, or report what was found"
_COMPILE = {
    "docker": "`strop image build --base IMAGE`, or `strop image import --from-host`",
    "embedded": f"{sys.executable} -m compileall -q {sysconfig.get_path('stdlib')}",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One capability: proved or not. `needed` says whether a run can do without it."""

    name: str
    ok: bool
    detail: str
    mend: str = ""
    needed: bool = True


async def examine(
    box: BoxName, folder: Path, image: str | None = None, *, told: Callable[[str], None] = lambda text: None
) -> list[Check]:
    """Run every probe; none of them raises. `folder` is where runs would be kept. `told` hears what is done now."""
    local: list[tuple[str, Callable[[], str], str]] = [
        ("python", probe_python, "use Python 3.11 or newer from a virtual environment"),
        ("git", probe_git, "install git (Debian: apt-get install git)"),
        ("sqlite", lambda: probe_sqlite(folder), "make the folder writable, on a local disk with room"),
        ("disk", lambda: probe_disk(folder), f"free {FREE_MB_NEEDED} MB on this disk, or use --runs on another"),
    ]
    found = [await _checked(name, probe, mend) for name, probe, mend in local]
    told("opening a box")
    return [*found, *await probe_box(box, image, told=told)]


async def _checked(name: str, probe: Callable[[], str], mend: str) -> Check:
    try:
        with anyio.fail_after(PROBE_TIMEOUT_S):
            return Check(name, True, await anyio.to_thread.run_sync(probe, abandon_on_cancel=True))
    except TimeoutError:
        return Check(name, False, f"no answer in {PROBE_TIMEOUT_S:g} s", mend)
    except (OSError, sqlite3.Error, subprocess.SubprocessError, MissingEnvironmentError) as error:
        reason = error.message if isinstance(error, StropError) else str(error)
        return Check(name, False, line(reason, 300), mend)


def probe_python() -> str:
    """The interpreter imports what a run imports, and starts itself in isolated mode."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import sys, sqlite3, tomllib, zlib; print(sys.version.split()[0])"],
        capture_output=True,
        timeout=PYTHON_TIMEOUT_S,
        check=True,
        text=True,
    )
    return f"{done.stdout.strip()} at {sys.executable}"


def probe_git() -> str:
    """Git makes a bare repository, a commit in it and a ref to that commit, and gives the content back."""
    from harness.repo.git import GitError, run_git

    content = b"probe\n"
    try:
        with tempfile.TemporaryDirectory(prefix="strop-doctor-") as temporary:
            place = Path(temporary)
            run_git(["init", "--bare", "--quiet", "--template=", "."], cwd=place)

            def git(*words: str, stdin: bytes = b"") -> str:
                return run_git(words, git_dir=place, stdin=stdin).decode("utf-8", "replace").strip()

            blob = git("hash-object", "-w", "--stdin", stdin=content)
            tree = git("mktree", stdin=f"100644 blob {blob}\tprobe\n".encode())
            git("update-ref", "refs/heads/probe", git("commit-tree", tree, "-m", "probe"))
            if run_git(["cat-file", "blob", "refs/heads/probe:probe"], git_dir=place) != content:
                raise OSError("git gave back something else than was committed")
    except GitError as error:
        raise OSError(str(error)) from error
    return f"a commit in a bare repository, with {shutil.which('git')}"


def probe_sqlite(folder: Path) -> str:
    """SQLite makes a durable write (WAL, synchronous=FULL) where runs are kept, and reads it back."""
    with tempfile.TemporaryDirectory(prefix=".strop-doctor-", dir=folder) as temporary:
        path = Path(temporary) / "probe.sqlite"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            if mode != "wal":
                raise OSError(f"no write-ahead log here (journal mode {mode})")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("BEGIN IMMEDIATE")
            db.execute("CREATE TABLE probe (value TEXT)")
            db.execute("INSERT INTO probe VALUES ('kept')")
            db.execute("COMMIT")
        with closing(sqlite3.connect(path)) as db:
            if db.execute("SELECT value FROM probe").fetchone() != ("kept",):
                raise OSError("a committed row was not there afterwards")
    return f"a durable write in {folder}"


def probe_disk(folder: Path) -> str:
    """There is room for a run."""
    free = shutil.disk_usage(folder).free // 2**20
    if free < FREE_MB_NEEDED:
        raise OSError(f"{free} MB free in {folder}")
    return f"{free:,} MB free"


async def probe_box(
    name: BoxName, image: str | None = None, *, told: Callable[[str], None] = lambda text: None
) -> list[Check]:
    """The box opens, and every promise it makes is tried from inside one."""
    from harness.box.bytecode import missing
    from harness.box.choose import choose
    from harness.box.selfcheck import selfcheck

    try:
        with anyio.fail_after(BOX_TIMEOUT_S) as patience:

            def heard(probe: str, count: int, total: int) -> None:
                patience.deadline = anyio.current_time() + BOX_TIMEOUT_S
                told(f"{count} of {total} promises of the box tried: {probe}")

            boxes = choose(name, image)
            tried = await selfcheck(boxes, heard=heard)
            slow = await missing(boxes) if boxes.isolated else ""
    except TimeoutError:
        return [Check("box", False, f"no answer in {BOX_TIMEOUT_S:g} s", OTHER_BOX)]
    except StropError as error:
        return [Check("box", False, line(error.message, 300), error.mend or OTHER_BOX)]
    found = [Check("box", True, boxes.name if boxes.isolated else f"{boxes.name}: no isolation, candidates run as you")]
    found += [Check(f"{name} held by", True, how, needed=False) for name, how in boxes.enforcement().items()]
    if slow:
        found.append(Check("byte code", True, f"{slow}; to mend: {_COMPILE[boxes.name]}", needed=False))
    for probe in tried:
        if probe.held is None:
            found.append(Check(f"box {probe.name}", True, f"not promised here: {probe.detail}", needed=False))
        else:
            found.append(Check(f"box {probe.name}", probe.held, probe.detail, "" if probe.held else OTHER_BOX))
    return found
