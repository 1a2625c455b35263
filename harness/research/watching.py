"""Who is told of a run while it goes: watchers, opened with the session and closed after its last event."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from harness.errors import InputError
from harness.events import Event, Notice
from harness.model.base import Seen
from harness.policy.schema import Policy
from harness.records import RolloutKey
from harness.research.attached import caller_of
from harness.research.session import Emit
from harness.telemetry import tracker
from harness.telemetry.base import Watcher
from harness.telemetry.tracker import LogFunction, Tracker, TrackerWatcher

if TYPE_CHECKING:
    from harness.telemetry.otlp import OtlpWatcher

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def check_telemetry(policy: Policy) -> None:
    """Raises InputError for a tracker that cannot be loaded, or spans that could not be sent."""
    asked = policy.telemetry
    if asked.otlp:
        _spans()
        if asked.otlp is True and not any(os.environ.get(name) for name in _ENDPOINTS):
            mend = 'give otlp = "http://127.0.0.1:4318", or set OTEL_EXPORTER_OTLP_ENDPOINT'
            raise InputError("nobody says where to send spans", key="telemetry.otlp", mend=mend)
    if asked.tracker:
        tracker.find(asked.tracker)


def _spans() -> type[OtlpWatcher]:
    """The watcher that needs an extra. Raises InputError without it."""
    try:
        from harness.telemetry.otlp import OtlpWatcher  # noqa: PLC0415 - an extra
    except ImportError as error:
        mend = "install the extra: pip install 'strop[telemetry]'"
        raise InputError(f"OpenTelemetry is missing: {error}", key="telemetry.otlp", mend=mend) from None
    return OtlpWatcher


@dataclass(frozen=True, slots=True)
class Watch:
    """All watchers of a session as one. `emit` is where events go besides."""

    emit: Emit
    watchers: Sequence[Watcher] = ()

    def tell(self, event: Event) -> None:
        """Pass an event on, and to every watcher."""
        self.emit(event)
        self.show(event)

    def show(self, event: Event) -> None:
        """To the watchers alone."""
        for one in self.watchers:
            one.event(event)

    def rollout(self, key: RolloutKey) -> None:
        """A rollout begins."""
        for one in self.watchers:
            one.rollout(key, caller_of(key))

    def call(self, seen: Seen) -> None:
        """A model call has ended."""
        for one in self.watchers:
            one.call(seen)


@asynccontextmanager
async def watching(
    run_id: str, policy: Policy, trackers: Sequence[Tracker | LogFunction], emit: Emit
) -> AsyncGenerator[Watch]:
    """The watchers that the policy asks for, and `trackers` of the caller's own."""
    asked = policy.telemetry
    found = [tracker.usable(one) for one in trackers]
    if asked.tracker:
        found.append(await anyio.to_thread.run_sync(tracker.find, asked.tracker))
    watchers: list[Watcher] = [TrackerWatcher(one) for one in found]
    if asked.otlp:
        address = asked.otlp if isinstance(asked.otlp, str) else ""
        watchers.append(await anyio.to_thread.run_sync(_spans(), run_id, policy.agent.name, address))
    try:
        yield Watch(emit, watchers)
    finally:
        for one in watchers:
            said = await one.close()
            if said:
                emit(Notice(said))
