"""What can go wrong upstream, and which of it passes."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from harness.records import Reply
from harness.untrusted import line

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
# said by what stands between us and a model that may be at work
UNSURE = frozenset({408, 499, 502, 504, 520, 524})
FINAL = frozenset({401, 402, 403})
# nothing that takes requests is at that address
NOWHERE = frozenset({404, 405, 410, 501})
# how busy it is, and nothing about what was asked
_BUSY = frozenset({429, 503, 529})
_QUOTA = (b"insufficient_quota", b"billing_hard_limit", b"credit balance is too low")
LONGEST_WAIT_S = 3600.0
MOST_READ, _DEEPEST = 1 << 16, 3
_NUMBER = re.compile(r"\d{3,}")


@dataclass
class Fault(Exception):  # noqa: N818 - most of these pass and are no errors of ours
    """An upstream did not answer as it should. `passing` ones are tried again; `final` ones stop the run.

    `reply` is what it said, when it said something whole; `wait_s` is how long it asked us to wait. `reached` is False
    when nothing of the request can have come to it. `astray` ones are the word of something that is no model's server:
    of a wrong address, where none was ever heard of there.
    """

    reason: str
    passing: bool = True
    final: bool = False
    status: int = 502
    wait_s: float | None = None
    reply: Reply | None = None
    reached: bool = True
    astray: bool = False

    @property
    def money(self) -> bool:
        """Whether it says that the account is empty."""
        return self.status == 402 or _out_of_money(self.reply)

    @property
    def odd(self) -> bool:
        """Whether what was asked may be why, as against how busy the upstream is."""
        return self.reached and self.status not in _BUSY

    @property
    def said(self) -> str:
        """The reason, with what the upstream said on one line."""
        words = "" if self.reply is None else excerpt(self.reply)
        return f"{self.reason}: {words}" if words else self.reason


def is_page(media: str, body: bytes) -> bool:
    """Whether an answer is a web page."""
    return media.strip().startswith("text/html") or body.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html"))


def _out_of_money(reply: Reply | None) -> bool:
    return reply is not None and reply.status == 429 and any(sign in reply.body for sign in _QUOTA)


def fault_of(reply: Reply, headers: Mapping[str, str]) -> Fault:
    """The fault that an HTTP status of 400 and above amounts to."""
    out_of_money = _out_of_money(reply)
    return Fault(
        reason=f"HTTP {reply.status}",
        passing=reply.status in PASSING and not out_of_money,
        final=reply.status in FINAL or out_of_money,
        status=reply.status,
        wait_s=retry_after(headers),
        reply=reply,
        astray=reply.status in NOWHERE,
    )


def excerpt(reply: Reply, limit: int = 300) -> str:
    """What an upstream says of itself in an error, on one line: its message where there is one, else its bytes."""
    if is_page(reply.media, reply.body):
        title = re.search(rb"<title[^>]*>([^<]{1,200})", reply.body[:MOST_READ], re.IGNORECASE)
        return "a web page" + (f" ({line(title[1].strip(), 100)})" if title else "")
    try:
        found: object = json.loads(reply.body[:MOST_READ])
    except (ValueError, RecursionError):
        return line(reply.body, limit)
    for _ in range(_DEEPEST):
        if not isinstance(found, dict):
            break
        table = cast("dict[str, object]", found)
        found = next((table[name] for name in ("error", "message", "detail", "msg") if table.get(name)), None)
    return line(found, limit) if isinstance(found, str) and found.strip() else line(reply.body, limit)


def refusal(reply: Reply) -> str:
    """An error of an upstream as a reason that can be counted: long numbers, which differ each time, are left out."""
    said = excerpt(reply, 160) if reply.body else ""
    return f"HTTP {reply.status}: {_NUMBER.sub('#', said)}" if said else f"HTTP {reply.status}"


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds that `Retry-After` (or its milliseconds sibling) asks for, as a number or a date; None without one."""
    millis, plain = headers.get("retry-after-ms"), headers.get("retry-after")
    for text, unit in ((millis, 1000.0), (plain, 1.0)):
        if text is None:
            continue
        try:
            return min(max(float(text) / unit, 0.0), LONGEST_WAIT_S)
        except ValueError:
            pass
    if plain is None:
        return None
    try:
        at = email.utils.parsedate_to_datetime(plain).timestamp()
    except ValueError:
        return None
    return min(max(at - (time.time() if now is None else now), 0.0), LONGEST_WAIT_S)
