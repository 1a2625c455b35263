"""A session that leaves nothing: the parts of a run in a temporary folder, for `strop check` and `strop redteam`."""

from __future__ import annotations

import tempfile
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
from harness.events import Event
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.opening import assemble, begin, boxes_for, plan
from harness.research.runs import owner_of
from harness.research.session import Hold, Session


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
    temporary = await anyio.to_thread.run_sync(lambda: tempfile.TemporaryDirectory(prefix="strop-bench-"))
    async with AsyncExitStack() as stack:
        stack.callback(temporary.cleanup)
        folder = Path(temporary.name) / "bench"
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


async def _reap(boxes: Boxes, folder: Path) -> None:
    with anyio.CancelScope(shield=True):
        await boxes.reap([owner_of(folder)])


def _ignore(event: Event) -> None:
    """Nobody watches a bench."""
