"""Completions in a file of their own, for tests and CI: what a run was told, to be told again without any model.

JSON lines: a head, then a line a call in the order of (ticket, role, number). No request and no key is in it; a call is
known by the digest of its request.
"""

from __future__ import annotations

import base64
import json
import os
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from harness.errors import InputError, StorageError
from harness.model.base import Caller
from harness.records import Json, ModelCall, Reply, Spend
from harness.version import VERSION

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Taped:
    """One recorded completion, and what it took when it was made."""

    caller: Caller
    digest: str
    model: str
    dialect: str
    reply: Reply
    spent: Spend


class Cassette:
    """Recorded completions, each given out once: to the same caller first, else to whoever asks the same."""

    def __init__(self, path: Path, taped: Iterable[Taped]) -> None:
        self.path = path
        self._left: list[Taped | None] = list(taped)
        self._exact: dict[tuple[Caller, str], deque[int]] = defaultdict(deque)
        self._same: dict[str, deque[int]] = defaultdict(deque)
        for place, one in enumerate(self._left):
            assert one is not None
            self._exact[one.caller, one.digest].append(place)
            self._same[one.digest].append(place)

    def take(self, caller: Caller, digest: str) -> Taped | None:
        """The next recording of this request, or None."""
        for places in (self._exact.get((caller, digest)), self._same.get(digest)):
            while places:
                place = places.popleft()
                found, self._left[place] = self._left[place], None
                if found is not None:
                    return found
        return None


def write(path: Path, calls: Iterable[ModelCall]) -> int:
    """Write every answered call to `path`, whole or not at all; how many. Raises StorageError."""
    lines = [json.dumps({"cassette": FORMAT, "strop": VERSION})]
    # a refusal of our own budget is no completion: a replay makes it again by itself
    kept = [call for call in calls if call.reply is not None and call.spent.requests]
    lines += [json.dumps(_line(call), ensure_ascii=False, sort_keys=True) for call in kept]
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        mend = "give --record a path that can be written; `strop resume RUN --record FILE` writes it again"
        raise StorageError(path, reason=reason, mend=mend) from None
    return len(kept)


def load(path: Path) -> Cassette:
    """The cassette at `path`. Raises InputError."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogatepass")
    except OSError as error:
        mend = "make it with `strop run ... --record FILE`"
        raise InputError(f"no cassette: {error.strerror}", file=path, mend=mend) from None
    except UnicodeDecodeError:
        raise InputError("is no cassette", file=path, mend="record it again") from None
    rows = text.splitlines()
    taped: list[Taped] = []
    for number, row in enumerate(rows or [""], 1):
        try:
            found = json.loads(row)
            if number == 1:
                if found["cassette"] != FORMAT:
                    raise ValueError(f"format {found['cassette']}, this version knows {FORMAT}")  # noqa: TRY301
            else:
                taped.append(_taped(found))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"line {number} is not what a cassette holds: {error}"
            raise InputError(why, file=path, mend="record it again with --record") from None
    return Cassette(path, taped)


def _line(call: ModelCall) -> dict[str, Json]:
    reply, spent = call.reply, call.spent
    assert reply is not None
    try:
        body: dict[str, Json] = {"text": reply.body.decode("utf-8")}
    except UnicodeDecodeError:
        body = {"base64": base64.b64encode(reply.body).decode()}
    return {
        "ticket": call.ticket,
        "role": call.role,
        "variant": call.variant,
        "call": call.call,
        "digest": call.digest,
        "model": call.model,
        "dialect": call.dialect,
        "status": reply.status,
        "media": reply.media,
        **body,
        "tokens_in": spent.tokens_in,
        "tokens_out": spent.tokens_out,
        "nano_usd": spent.nano_usd,
        "requests": spent.requests,
        "estimated": spent.estimated,
    }


def _taped(row: dict[str, Any]) -> Taped:
    body = row["text"].encode() if "text" in row else base64.b64decode(row["base64"])
    amounts = [row[name] for name in ("requests", "tokens_in", "tokens_out", "nano_usd")]
    texts = [row[name] for name in ("role", "variant", "digest", "model", "dialect", "media")]
    if not all(isinstance(one, int) and one >= 0 for one in (*amounts, row["ticket"], row["status"])):
        raise ValueError("a number is none")
    if not all(isinstance(one, str) for one in texts):
        raise ValueError("a text is none")
    role, variant, digest, model, dialect, media = cast("list[str]", texts)
    spent = Spend(*amounts, estimated=bool(row["estimated"]))
    return Taped(Caller(row["ticket"], role, variant), digest, model, dialect, Reply(row["status"], media, body), spent)
