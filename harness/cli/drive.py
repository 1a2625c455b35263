"""Drive a run from the terminal: events to a display, signals to a drain and then to an abort."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import anyio

from harness.cli.failure import INTERRUPTED
from harness.events import RunFinished

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from harness.cli.progress import Display
    from harness.records import Json
    from harness.research.run import Run

DRAINING = "stopping when the tickets in flight are done; Ctrl-C again aborts them (the run can be resumed either way)"
ABORTED = "aborted; `strop resume` goes on from the last finished step"


class Driver:
    """One run under one display. `exit_code` is 130 once a signal ended it before its own end."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._run: Run | None = None
        self._interrupted = False
        self.aborted = False
        self.summary: Mapping[str, Json] | None = None
        self.folder = ""

    async def drive(self, opening: Callable[[], AbstractAsyncContextManager[Run]]) -> None:
        """Open the run, show it to its end, close it. A second Ctrl-C, SIGTERM or SIGHUP cancels it."""
        with anyio.open_signal_receiver(*_heeded()) as signals:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, signals, tasks)
                async with opening() as run:
                    self._run, self.folder = run, str(run.folder)
                    async for event in run.events:
                        self._display.take(event)
                        if isinstance(event, RunFinished):
                            self.summary = event.summary
                tasks.cancel_scope.cancel()

    async def _watch(self, signals: AsyncIterator[signal.Signals], tasks: TaskGroup) -> None:
        async for number in signals:
            if number != signal.SIGINT or self._interrupted or self._run is None:
                self.aborted = self._interrupted = True
                tasks.cancel_scope.cancel()
                return
            self._interrupted = True
            self._display.say(DRAINING)
            self._run.drain()

    @property
    def exit_code(self) -> int:
        """0 when the run came to its own end, 130 when it was interrupted."""
        ended = self.summary is not None and self.summary["state"] == "finished"
        return INTERRUPTED if self._interrupted and not ended else 0


def _heeded() -> list[signal.Signals]:
    # under nohup the terminal may go away and the run must not
    hang_up = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]
