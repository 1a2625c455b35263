"""A circuit breaker for one upstream: after faults in a row nobody calls for a while, then one call at a time tries."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

FAULTS = 5
FIRST_S, LONGEST_S = 2.0, 60.0


class Breaker:
    """`admit` waits while the upstream rests; `succeeded` and `failed` tell it how a call went."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, first_s: float = FIRST_S) -> None:
        self._clock = clock
        self._first_s = first_s
        self._faults = 0
        self._rest_s = 0.0
        self._until = 0.0
        self._probing = False
        self._changed = anyio.Event()

    @property
    def resting(self) -> bool:
        """Whether calls wait now."""
        return self._faults >= FAULTS

    async def admit(self) -> None:
        """Return when a call may be made. After a rest only one caller at a time is let through."""
        while self.resting:
            left = self._until - self._clock()
            if left <= 0 and not self._probing:
                self._probing = True
                return
            changed = self._changed
            with anyio.move_on_after(max(left, 0.01) if not self._probing else self._longest()):
                await changed.wait()

    def succeeded(self) -> None:
        """The upstream answered."""
        self._faults, self._rest_s, self._probing = 0, 0.0, False
        self._wake()

    def failed(self, wait_s: float | None = None) -> None:
        """A fault that may pass. `wait_s` is how long the upstream itself asked to be left alone."""
        self._faults += 1
        self._probing = False
        if self.resting:
            self._rest_s = min(LONGEST_S, 2 * self._rest_s or self._first_s)
            self._until = self._clock() + max(self._rest_s, wait_s or 0.0)
        self._wake()

    def abandoned(self) -> None:
        """The call ended without a word on the upstream: cancelled, or refused before it was sent."""
        self._probing = False
        self._wake()

    def _longest(self) -> float:
        return LONGEST_S

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
