"""What a watcher of a run is told, and where it may be slow."""

from __future__ import annotations

import threading
import time
from typing import Protocol

import anyio

from harness.events import Event
from harness.model.base import Caller, Seen
from harness.records import RolloutKey


class Watcher(Protocol):
    """Told everything as it happens, on the event loop: each method returns at once and never raises.

    Scores of holdout and vault are sealed in what it is told; no prompt and no reply is ever passed on.
    """

    def event(self, event: Event) -> None:
        """An event of the run."""
        ...

    def rollout(self, key: RolloutKey, caller: Caller) -> None:
        """A rollout begins; its model calls go on the account of `caller`. Its end is an event."""
        ...

    def call(self, seen: Seen) -> None:
        """A model call has ended."""
        ...

    async def close(self) -> str:
        """Deliver what is left, within seconds. What could not be delivered is said in a sentence, else ""."""
        ...


_LOOK_S = 0.02


async def ended(thread: threading.Thread, seconds: float) -> bool:
    """Whether `thread` ends within so many seconds; waited for even while the run is being cancelled.

    Watchers have daemon threads of their own: one that hangs in somebody else's code must not keep the process.
    """
    until = time.monotonic() + seconds
    with anyio.CancelScope(shield=True):
        while thread.is_alive() and time.monotonic() < until:  # noqa: ASYNC110 - the loop may close before it ends
            await anyio.sleep(_LOOK_S)
    return not thread.is_alive()
