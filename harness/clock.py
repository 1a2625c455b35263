"""Time, injected: what decides anything reads a `Clock`, so tests can hold it still."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """`monotonic` is seconds for durations; `now` is an ISO 8601 UTC stamp for people."""

    def monotonic(self) -> float: ...

    def now(self) -> str: ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds")
