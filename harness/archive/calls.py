"""The journal of model calls: a table of `run.db` that only runs with models have.

Many callers write at once, so what waits is written in one transaction: one flush to disk for all of them. A request is
known by its digest, and kept for people as long as it is small; what replies to evaluated rollouts may take is bounded
too, since once a rollout is stored nobody reads them again.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import anyio

from harness.failpoint import failpoint
from harness.records import ModelCall, Reply, Spend

_TABLE = """
CREATE TABLE IF NOT EXISTS calls (
    ticket INTEGER NOT NULL, role TEXT NOT NULL, call INTEGER NOT NULL, digest TEXT NOT NULL, model TEXT NOT NULL,
    dialect TEXT NOT NULL, variant TEXT NOT NULL, request BLOB NOT NULL,
    held_requests INTEGER NOT NULL, held_in INTEGER NOT NULL, held_out INTEGER NOT NULL, held_nano INTEGER NOT NULL,
    requests INTEGER NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, nano_usd INTEGER NOT NULL,
    estimated INTEGER NOT NULL, status INTEGER, media TEXT, body BLOB,
    PRIMARY KEY (ticket, role, call)) WITHOUT ROWID
"""
_COLUMNS = (
    "ticket, role, call, digest, model, dialect, variant, held_requests, held_in, held_out, held_nano, "
    "requests, tokens_in, tokens_out, nano_usd, estimated, status, media, body"
)
_HELD = "held_requests = ?, held_in = ?, held_out = ?, held_nano = ?"
_SPENT = "requests = ?, tokens_in = ?, tokens_out = ?, nano_usd = ?, estimated = ?"
_FILLED = (
    "ticket, role, call, digest, model, dialect, variant, held_requests, held_in, held_out, held_nano, "
    "requests, tokens_in, tokens_out, nano_usd, estimated, request, status"
)
_INSERT = f"INSERT INTO calls ({_FILLED}) VALUES ({', '.join('?' * 18)})"  # noqa: S608 - constants
_AGAIN = f"{_INSERT} ON CONFLICT (ticket, role, call) DO UPDATE SET {_HELD}, {_SPENT}"
_SETTLE = (
    f"UPDATE calls SET {_HELD}, {_SPENT}, status = ?, media = ?, body = ? "  # noqa: S608 - constants
    "WHERE ticket = ? AND role = ? AND call = ?"
)

# bytes: of one request, of all requests of one maker in a ticket as they are packed, of all replies to one rollout
MOST_REQUEST, MAKER_REQUESTS, MAKER_REPLIES = 256 << 10, 4 << 20, 16 << 20
ROLLOUT = "task"  # the role of evaluated rollouts, which each may have one of its own below it

Maker = tuple[int, str, str]
Work = Callable[[sqlite3.Connection], object]


class _Runs(Protocol):
    def __call__(self, work: Callable[[sqlite3.Connection], Any]) -> Awaitable[Any]: ...


@dataclass
class _Pending:
    work: Work
    done: bool = False
    error: BaseException | None = None


class CallJournal:
    """Model calls of one run, durable when each method returns. `whole` keeps every reply, however many there are."""

    def __init__(self, write: _Runs, read: _Runs, *, whole: bool = False) -> None:
        self._write = write
        self._read = read
        self._pending: list[_Pending] = []
        self._turn = anyio.Lock()
        self._made = False
        self._whole = whole
        self._requests: Counter[Maker] = Counter()
        self._replies: Counter[Maker] = Counter()

    async def calls(self) -> Sequence[ModelCall]:
        """Every call so far, by ticket, role and number."""
        calls = await self._read(recorded_calls)
        self._requests = Counter(await self._read(_kept_requests))
        self._replies.clear()
        for call in calls:
            if call.reply is not None and _of_rollout(call):
                self._replies[_maker(call)] += len(call.reply.body)
        return calls

    async def spent(self) -> dict[tuple[int, str, str], Spend]:
        """What calls took, by (ticket, role, variant); what was held for calls that a crash cut off counts in full."""
        return await self._read(_spent)

    async def begin_call(self, call: ModelCall, request: bytes) -> None:
        """Write a call down before it is sent, or note another try of it. A request that is large, or one of many, is
        left out: its digest tells it."""
        packed = zlib.compress(request if len(request) <= MOST_REQUEST else b"", 1)
        if self._requests[_maker(call)] + len(packed) > MAKER_REQUESTS:
            packed = zlib.compress(b"", 1)
        self._requests[_maker(call)] += len(packed)
        await self._put(lambda connection: _begin(connection, call, packed))
        failpoint("call-begun")

    async def finish_call(self, call: ModelCall) -> None:
        """Settle its last try, with the reply if there is one to keep. A rollout that has had too much is not told more
        of it again: if a crash breaks it off, it asks anew."""
        if call.reply is not None and _of_rollout(call) and not self._whole:
            if self._replies[_maker(call)] + len(call.reply.body) > MAKER_REPLIES:
                call = replace(call, reply=None)
            else:
                self._replies[_maker(call)] += len(call.reply.body)
        failpoint("call-answered")
        await self._put(lambda connection: _finish(connection, call))
        failpoint("call-stored")

    async def _put(self, work: Work) -> None:
        mine = _Pending(work)
        self._pending.append(mine)
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if not mine.done:
                    await self._flush()
        if mine.error is not None:
            raise mine.error

    async def _flush(self) -> None:
        batch, self._pending = self._pending, []

        def work(connection: sqlite3.Connection) -> None:
            if not self._made:
                connection.execute(_TABLE)
            for one in batch:
                one.work(connection)

        try:
            await self._write(work)
            self._made = True
        except Exception as error:  # whatever it is, each caller that waits for this batch raises it
            for one in batch:
                one.error = error
        finally:
            for one in batch:
                one.done = True


def recorded_calls(connection: sqlite3.Connection) -> list[ModelCall]:
    """Every call of a run; none when it has no such table."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'calls'").fetchone() is None:
        return []
    rows = connection.execute(f"SELECT {_COLUMNS} FROM calls ORDER BY ticket, role, call")  # noqa: S608 - constants
    return [_as_call(row) for row in rows]


def lay_calls(connection: sqlite3.Connection) -> None:
    """Make the table, where there is none yet."""
    connection.execute(_TABLE)


def _of_rollout(call: ModelCall) -> bool:
    return call.role.partition("/")[0] == ROLLOUT


def _maker(call: ModelCall) -> Maker:
    return call.ticket, call.role, call.variant


def _kept_requests(connection: sqlite3.Connection) -> dict[Maker, int]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'calls'").fetchone() is None:
        return {}
    rows = connection.execute(
        "SELECT ticket, role, variant, sum(length(request)) FROM calls GROUP BY ticket, role, variant"
    )
    return {(ticket, role, variant): size for ticket, role, variant, size in rows}


def _spent(connection: sqlite3.Connection) -> dict[tuple[int, str, str], Spend]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'calls'").fetchone() is None:
        return {}
    rows = connection.execute(
        "SELECT ticket, role, variant, sum(requests + held_requests), sum(tokens_in + held_in), "
        "sum(tokens_out + held_out), sum(nano_usd + held_nano), max(estimated) "
        "FROM calls GROUP BY ticket, role, variant ORDER BY ticket, role, variant"
    )
    return {
        (ticket, role, variant): Spend(*amounts, estimated=bool(estimated))
        for ticket, role, variant, *amounts, estimated in rows
    }


def _begin(connection: sqlite3.Connection, call: ModelCall, request: bytes) -> None:
    row = (
        *_key(call),
        call.digest,
        call.model,
        call.dialect,
        call.variant,
        *_amounts(call.held),
        *_amounts(call.spent),
    )
    connection.execute(
        _AGAIN,
        (*row, call.spent.estimated, request, None, *_amounts(call.held), *_amounts(call.spent), call.spent.estimated),
    )


def _finish(connection: sqlite3.Connection, call: ModelCall) -> None:
    reply = call.reply
    status, media, body = (None,) * 3 if reply is None else (reply.status, reply.media, zlib.compress(reply.body, 1))
    connection.execute(
        _SETTLE,
        (*_amounts(call.held), *_amounts(call.spent), call.spent.estimated, status, media, body, *_key(call)),
    )


def _key(call: ModelCall) -> tuple[int, str, int]:
    return call.ticket, call.role, call.call


def _amounts(spend: Spend) -> tuple[int, int, int, int]:
    return spend.requests, spend.tokens_in, spend.tokens_out, spend.nano_usd


def _as_call(row: tuple[Any, ...]) -> ModelCall:
    ticket, role, call, digest, model, dialect, variant, *rest = row
    held, spent, (estimated, status, media, body) = rest[:4], rest[4:8], rest[8:]
    reply = None if status is None else Reply(status, media, zlib.decompress(body))
    settled = Spend(*spent, estimated=bool(estimated))
    return ModelCall(ticket, role, call, digest, model, dialect, variant, Spend(*held), settled, reply)
