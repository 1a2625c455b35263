"""Calls of one model at the same time: so many, and never all of them one ticket's.

Whose calls hang keeps them for as long as a deadline is. The last quarter is for tickets that have few.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio


class Slots:
    """`total` slots; whom one does not fit waits in line, and lets those pass whom it does."""

    def __init__(self, total: int) -> None:
        self._free = total
        self._kept = total // 4
        self._by_ticket: Counter[int] = Counter()
        self._line: deque[tuple[int, anyio.Event]] = deque()

    @asynccontextmanager
    async def one(self, ticket: int) -> AsyncGenerator[None]:
        """A slot for a call of `ticket`."""
        await self._take(ticket)
        try:
            yield
        finally:
            self._return(ticket)

    async def _take(self, ticket: int) -> None:
        if self._fits(ticket):
            self._give(ticket)
            return
        place = ticket, anyio.Event()
        self._line.append(place)
        try:
            await place[1].wait()
        except BaseException:
            if place in self._line:
                self._line.remove(place)
            else:  # it was given one just before it went away
                self._return(ticket)
            raise

    def _fits(self, ticket: int) -> bool:
        few = self._by_ticket[ticket] < max(1, self._kept // 2)
        return self._free > self._kept or (self._free > 0 and few)

    def _give(self, ticket: int) -> None:
        self._free -= 1
        self._by_ticket[ticket] += 1

    def _return(self, ticket: int) -> None:
        self._free += 1
        self._by_ticket[ticket] -= 1
        if not self._by_ticket[ticket]:
            del self._by_ticket[ticket]
        for place in list(self._line):
            if self._fits(place[0]):
                self._line.remove(place)
                self._give(place[0])
                place[1].set()
