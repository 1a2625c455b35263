"""A model that does not answer, told while it is waited for: as events, and beside the ledger for `strop status`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

import anyio

from harness.archive.sqlite import SqliteArchive
from harness.clock import Clock
from harness.events import ModelAwaited
from harness.model.base import Wait
from harness.model.gateway import Gateway
from harness.records import Json
from harness.research.session import Emit
from harness.untrusted import line

LOOK_S = 1.0
# nobody need hear of what passes at once
AT_FIRST_S, THEN_S = 5.0, 60.0
_NOTE = "models/waiting"


async def tell_waiting(gateway: Gateway, archive: SqliteArchive, clock: Clock, emit: Emit) -> None:
    """For ever: tell of each model that is waited for, after some seconds, then each minute, and when it answers."""
    told: dict[str, float] = {}
    await archive.set_meta(_NOTE, {})
    while True:
        await anyio.sleep(LOOK_S)
        now = time.monotonic()
        waiting = {name: wait for name, wait in gateway.waiting.items() if now - wait.since >= AT_FIRST_S}
        if waiting.keys() != told.keys():
            await archive.set_meta(_NOTE, {name: _noted(wait, now, clock) for name, wait in waiting.items()})
        for name in told.keys() - waiting.keys():
            emit(ModelAwaited(name, "", 0.0, 0.0))
        told = {name: at for name, at in told.items() if name in waiting}
        for name, wait in waiting.items():
            if name not in told or now - told[name] >= THEN_S:
                told[name] = now
                emit(ModelAwaited(name, line(wait.reason, 200), round(now - wait.since), wait.patience_s))


def _noted(wait: Wait, now: float, clock: Clock) -> dict[str, Json]:
    since = datetime.fromisoformat(clock.now()) - timedelta(seconds=now - wait.since)
    since_text = since.isoformat(timespec="seconds")
    return {"reason": line(wait.reason, 200), "since": since_text, "patience_s": wait.patience_s}


def awaited(meta: Mapping[str, Json]) -> dict[str, Json]:
    """Each model that a live run waits for as {name: {reason, since, patience_s}}; `since` is an ISO 8601 stamp."""
    found: Any = meta.get(_NOTE)
    return cast("dict[str, Json]", found) if isinstance(found, dict) else {}
