"""Replies with nothing in them: what a model did not say is no fault of a program's prompt, and nothing to mend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from harness.model.base import Asked, Dialect
from harness.model.dialects import DIALECTS
from harness.model.dialects.fields import rows, table
from harness.model.faults import refusal
from harness.model.sse import Events, whole
from harness.records import Json, ModelCall, Reply
from harness.untrusted import line

OTHER, _KINDS = "for other reasons", 12
_BY_NAME: dict[str, Dialect] = {one.name: one for one in DIALECTS if one.writes}


def silent(calls: Iterable[ModelCall], role: str) -> dict[str, int]:
    """Errors and empty replies of a role, or of one below it, counted by kind; our own refusals are neither."""
    found = Counter[str]()
    for call in calls:
        if call.role.partition("/")[0] != role or call.reply is None or call.dialect not in _BY_NAME:
            continue
        if why := _fault(call.reply, _BY_NAME[call.dialect]):
            found[why if why in found or len(found) < _KINDS else OTHER] += 1
    return dict(found)


def spoken(choice: Mapping[str, Json]) -> str:
    """The text of a choice of a chat completion; "" when there is none."""
    content = table(choice.get("message")).get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in rows(content))
    return content if isinstance(content, str) else ""


def why_silent(choice: Mapping[str, Json]) -> str:
    """Why a choice without text has none, as far as it says."""
    message, reason = table(choice.get("message")), choice.get("finish_reason")
    if isinstance(refusal := message.get("refusal"), str) and refusal.strip():
        return f"it refused: {line(refusal, 100)}"
    if reason == "length":
        return "it came to no answer within its limit of tokens" + (" (it was thinking)" if thought(choice) else "")
    if message.get("tool_calls"):
        return "it called a tool instead of answering"
    return f"finish_reason {line(str(reason), 40)}"


def thought(choice: Mapping[str, Json]) -> bool:
    """Whether a choice holds what a model thought before it answered."""
    message = table(choice.get("message"))
    return any(
        isinstance(text := message.get(name), str) and text.strip() for name in ("reasoning_content", "reasoning")
    )


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
