"""Recorded replies with nothing in them: what a program's model did not say is no fault of its prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.model.base import Asked, Dialect
from harness.model.dialects import DIALECTS
from harness.model.faults import refusal
from harness.model.sse import Events, whole
from harness.records import ModelCall, Reply

OTHER, _KINDS = "for other reasons", 12
_BY_NAME: dict[str, Dialect] = {one.name: one for one in DIALECTS if one.name != "embeddings"}


def silent(calls: Iterable[ModelCall], role: str) -> dict[str, int]:
    """Errors and empty replies of a role, or of one below it, counted by kind; our own refusals are neither."""
    found = Counter[str]()
    for call in calls:
        if call.role.partition("/")[0] != role or call.reply is None or call.dialect not in _BY_NAME:
            continue
        if why := _fault(call.reply, _BY_NAME[call.dialect]):
            found[why if why in found or len(found) < _KINDS else OTHER] += 1
    return dict(found)


def _fault(reply: Reply, dialect: Dialect) -> str:
    if reply.status >= 400:
        return "" if b"strop: budget" in reply.body else refusal(reply)
    tally = dialect.tally(Asked(False, {}, 0))
    try:
        if "event-stream" in reply.media:
            events = Events()
            for event in [*events.feed(reply.body), *events.rest()]:
                if event.body is not None:
                    tally.take(event.body)
        else:
            tally.take(whole(reply.body))
    except ValueError:
        return "no completion in the reply"
    return "" if tally.text.size else "an empty reply"
