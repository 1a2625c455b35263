"""The wall time of a session, written down before it is taken: a kill never makes it less."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from harness.research.session import Hold

BEAT_S = 1.0
AHEAD_S = 2 * BEAT_S


@asynccontextmanager
async def beating(hold: Hold) -> AsyncGenerator[None]:
    """Keep what this session takes in the run's records, from its first moment on and a little ahead of it."""

    async def beat() -> None:
        await hold.archive.heartbeat(hold.clock.monotonic() - hold.began + AHEAD_S)

    async def beats() -> None:
        while True:
            await anyio.sleep(BEAT_S)
            await beat()

    await beat()
    async with anyio.create_task_group() as group:
        group.start_soon(beats)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
