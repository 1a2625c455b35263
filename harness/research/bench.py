"""A session that leaves nothing: the parts of a run in a temporary folder, for `strop check` and `strop redteam`."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from harness.archive.lock import RunLock
from harness.archive.sqlite import SqliteArchive
from harness.box.base import Boxes
from harness.clock import SystemClock
from harness.errors import StropError
from harness.events import Event
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.opening import assemble, begin, boxes_for, plan
from harness.research.runs import owner_of
from harness.research.session import Hold, Session

_PREFIX, _NAME = "strop-bench-", "bench"
_OLD_S = 3600.0


@asynccontextmanager
async def bench(
    subject: Path, *, policy: str | None = None, overrides: Mapping[str, object] | None = None
) -> AsyncGenerator[tuple[Session, Boxes]]:
    """A session over `subject` whose root is not measured yet, and the boxes it runs in.

    Raises InputError, BoxUnavailableError. Leaving it removes the folder and every box.
    """
    made = await plan(subject, seed=0, workers=None, use=policy, overrides=overrides or {})
    boxes = boxes_for(made.subject.file.eval.mode, made.policy)
    await boxes.prepare()
    await _sweep(boxes)
    temporary = await anyio.to_thread.run_sync(lambda: tempfile.TemporaryDirectory(prefix=_PREFIX))
    async with AsyncExitStack() as stack:
        stack.callback(temporary.cleanup)
        folder = Path(temporary.name) / _NAME
        folder.mkdir()
        stack.enter_context(RunLock(folder))
        archive = await SqliteArchive.create(folder)
        stack.push_async_callback(archive.aclose)
        store = TreeStore(folder / FOLDER_NAME)
        await store.create()
        hold = Hold(folder, archive, store, SystemClock())
        await begin(made, hold)
        stack.push_async_callback(_reap, boxes, folder)
        session = await assemble(hold, boxes, _ignore)
        session.subject = replace(session.subject, anchors=made.subject.anchors)
        yield session, boxes


async def _sweep(boxes: Boxes) -> None:
    """Remove what benches left that were killed: their folders, and the boxes labelled with them."""
    dead = await anyio.to_thread.run_sync(_dead)
    await boxes.reap([owner_of(folder / _NAME) for folder in dead])
    for folder in dead:
        await anyio.to_thread.run_sync(lambda folder=folder: shutil.rmtree(folder, ignore_errors=True))


def _dead() -> list[Path]:
    """Our own old benches that nobody holds. A young one may not be locked yet."""
    found: list[Path] = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, StropError):
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or time.time() - about.st_mtime < _OLD_S:
                continue
            if (folder / _NAME).is_dir():
                with RunLock(folder / _NAME):
                    found.append(folder)
            else:
                found.append(folder)
    return found


async def _reap(boxes: Boxes, folder: Path) -> None:
    with anyio.CancelScope(shield=True):
        await boxes.reap([owner_of(folder)])


def _ignore(event: Event) -> None:
    """Nobody watches a bench."""
