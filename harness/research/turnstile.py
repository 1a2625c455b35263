"""Order out of concurrency: tickets pass one by one, in number order."""

from __future__ import annotations

import anyio


class Turnstile:
    """Counts passages; `reached(n)` waits until the n-th has passed. One event loop owns it."""

    def __init__(self, passed: int = 0) -> None:
        self._passed = passed
        self._waiting: dict[int, anyio.Event] = {}

    async def reached(self, number: int) -> None:
        """Return once `number` tickets have passed."""
        if number > self._passed:
            await self._waiting.setdefault(number, anyio.Event()).wait()

    def advance(self) -> None:
        """The next ticket has passed."""
        self._passed += 1
        event = self._waiting.pop(self._passed, None)
        if event is not None:
            event.set()
