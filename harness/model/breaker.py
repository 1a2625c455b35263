"""A circuit breaker for one upstream: after faults in a row nobody calls until somebody has asked whether it answers.

Who asks does so with a request of the gateway's own (`doubt.py`), never with that of a caller: one that the upstream
does not answer for its own sake would keep all others waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

FAULTS = 5
FIRST_S, LONGEST_S = 2.0, 60.0


class Breaker:
    """`succeeded` and `failed` tell it how calls went, `probed` how asking went; `turn` waits while it rests."""

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

    @property
    def down(self) -> bool:
        """Whether it rests because asking failed, and not for faults of calls alone."""
        return self.resting and self._rest_s > 0

    async def turn(self, within_s: float) -> bool:
        """True when it is the caller's turn to ask, who must then tell `probed`; False when calls may be made, or after
        `within_s`."""
        give_up = self._clock() + within_s
        while self.resting and (now := self._clock()) < give_up:
            if not self._probing and now >= self._until:
                self._probing = True
                return True
            changed = self._changed
            wake = give_up if self._probing else min(give_up, self._until)
            with anyio.move_on_after(max(wake - now, 0.01)):
                await changed.wait()
        return False

    def succeeded(self) -> None:
        """A call was answered."""
        self._faults, self._rest_s = 0, 0.0
        self._wake()

    def failed(self) -> None:
        """A fault of a call that may pass."""
        self._faults += 1
        if self._faults == FAULTS:
            self._until = self._clock()

    def probed(self, answered: bool | None, wait_s: float | None = None) -> None:
        """How asking went; None when nobody could be asked. `wait_s` is how long the upstream wants to be left."""
        self._probing = False
        if answered is True:
            self._faults, self._rest_s = 0, 0.0
        elif answered is False and self.resting:
            self._rest_s = min(LONGEST_S, 2 * self._rest_s or self._first_s)
            self._until = self._clock() + max(self._rest_s, wait_s or 0.0)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
