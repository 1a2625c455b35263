"""The archive in one SQLite file: one writer at a time, readers of their own, every write on disk when it returns.

Work runs in threads. A write that has begun is never abandoned: cancellation is delivered after it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from harness.archive import audit, carry, database, reading, schema
from harness.archive.base import Commit, LedgerEntry, StoredProposal
from harness.archive.calls import CallJournal
from harness.archive.database import FILE_NAME, transaction, translated
from harness.archive.ledger import canonical, link
from harness.archive.reading import Contents, RolloutCounts
from harness.errors import IntegrityError, StorageError
from harness.failpoint import failpoint
from harness.records import Attempt, Json, Outcome, RolloutKey, Variant

_T = TypeVar("_T")


class SqliteArchive:
    """`harness.archive.base.Archive` over `run.db` in a run folder. Made by `create`, `open` or `view`."""

    def __init__(
        self,
        folder: Path,
        reader: sqlite3.Connection,
        writer: sqlite3.Connection | None,
        copy: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.folder = folder
        self._reader = reader
        self._writer = writer
        self._copy = copy
        self._session: int | None = None
        self._closed = False
        self._reading = CapacityLimiter(1)
        self._writing = CapacityLimiter(1)

    @classmethod
    async def create(cls, folder: Path) -> Self:
        """A new archive in `folder`, which is made when missing. Raises InputError when a run lives there."""
        return await anyio.to_thread.run_sync(lambda: cls._owned(folder, new=True), limiter=CapacityLimiter(1))

    @classmethod
    async def open(cls, folder: Path) -> Self:
        """The archive in `folder`, for its one owner. Raises InputError when there is none."""
        return await anyio.to_thread.run_sync(lambda: cls._owned(folder, new=False), limiter=CapacityLimiter(1))

    @classmethod
    async def view(cls, folder: Path) -> Self:
        """Read-only, for any process at any time: beside a live owner, or on a read-only copy."""
        return await anyio.to_thread.run_sync(lambda: cls._viewed(folder), limiter=CapacityLimiter(1))

    @classmethod
    def _owned(cls, folder: Path, *, new: bool) -> Self:
        path = folder / FILE_NAME
        with translated(folder):
            if new:
                folder.mkdir(parents=True, exist_ok=True)
            writer = database.make(path) if new else database.owned(path)
            with contextlib.ExitStack() as undo:
                undo.callback(writer.close)
                reader = database.connect(path, mode="ro")
                undo.callback(reader.close)
                _fsync_folder(folder)
                undo.pop_all()
            return cls(folder, reader, writer)

    @classmethod
    def _viewed(cls, folder: Path) -> Self:
        with translated(folder):
            reader, copy = database.viewed(folder / FILE_NAME)
            return cls(folder, reader, None, copy)

    async def aclose(self) -> None:
        """Close every connection; the last one folds the write-ahead log back into the file."""
        with anyio.CancelScope(shield=True):
            async with self._writing, self._reading:
                await anyio.to_thread.run_sync(self._close, limiter=CapacityLimiter(1))

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with translated(self.folder):
            self._reader.close()
            if self._writer is not None:
                self._writer.close()
        if self._copy is not None:
            self._copy.cleanup()

    # -- writing ----------------------------------------------------------------------------------------
    async def _write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        return await anyio.to_thread.run_sync(lambda: self._written(work), limiter=self._writing)

    def _written(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        if self._writer is None or self._closed:
            raise StorageError(self.folder, reason="opened for viewing only" if not self._closed else "closed")
        with translated(self.folder):
            with transaction(self._writer):
                result = work(self._writer)
                failpoint("archive-uncommitted")
            failpoint("archive-committed")
            return result

    async def append(self, kind: str, body: Mapping[str, Json] | None, obs: Mapping[str, Json]) -> LedgerEntry:
        """Add a ledger row outside a ticket."""
        return await self._write(lambda connection: _append(connection, kind, None, body, obs))

    async def commit(self, commit: Commit) -> LedgerEntry:
        """Make one ticket durable. Raises ValueError for a ticket out of order or a body of another ticket."""
        return await self._write(lambda connection: _commit(connection, commit))

    async def store_proposal(self, proposal: StoredProposal) -> None:
        """Store it, or the same one again after a crash; it replaces what an uncommitted ticket had."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM proposals WHERE ticket = ?", (proposal.ticket,))
            schema.insert(connection, "proposals", schema.PROPOSAL, schema.proposal_row(proposal))

        await self._write(work)

    async def begin_rollout(self, key: RolloutKey, seed: int) -> Outcome | None:
        """Reserve a rollout; the outcome instead if this key is already paid for.

        Raises IntegrityError when the key was begun with another seed.
        """
        return await self._write(lambda connection: _begin(connection, key, seed))

    async def finish_rollout(self, key: RolloutKey, outcome: Outcome) -> None:
        """Fill a reserved rollout, once. Raises ValueError when it was never begun or has another outcome."""
        await self._write(lambda connection: _finish(connection, key, outcome))

    def journal(self, *, whole: bool = False) -> CallJournal:
        """Where this run's model calls are written down; `whole` asks for every reply of them."""
        return CallJournal(self._write, self._read, whole=whole)

    async def set_meta(self, name: str, value: Json) -> None:
        await self._write(
            lambda connection: connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, canonical(value)))
        )

    async def heartbeat(self, wall_s: float) -> None:
        """Note that this opening of the archive has lasted `wall_s` seconds so far."""

        def work(connection: sqlite3.Connection) -> None:
            if self._session is None:
                row = connection.execute("INSERT INTO sessions (wall_s) VALUES (?) RETURNING n", (wall_s,)).fetchone()
                self._session = row[0]
            else:
                connection.execute("UPDATE sessions SET wall_s = ? WHERE n = ?", (wall_s, self._session))

        await self._write(work)

    async def fill(self, rows: Iterator[tuple[object, Sequence[object]]]) -> None:
        """Put the rows of another archive into this new one, in one transaction. Raises IntegrityError."""

        def work(connection: sqlite3.Connection) -> None:
            try:
                for table, values in rows:
                    carry.fill(connection, table, values)
            except (ValueError, TypeError, sqlite3.IntegrityError) as error:
                raise IntegrityError(FILE_NAME, expected="rows of a run", found=str(error)) from error

        await self._write(work)

    # -- reading ----------------------------------------------------------------------------------------
    async def pour(self, tell: Callable[[str, list[Json]], None]) -> None:
        """Tell every row as of one moment, for an export; `tell` is called in a thread."""
        await self._read(lambda connection: carry.pour(connection, tell))

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        return await anyio.to_thread.run_sync(lambda: self._have_read(work), limiter=self._reading)

    def _have_read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        if self._closed:
            raise StorageError(self.folder, reason="closed")
        with translated(self.folder):
            try:
                return work(self._reader)
            except (ValueError, TypeError, IndexError) as error:
                raise IntegrityError(FILE_NAME, expected="what was written", found=str(error)) from error

    async def meta(self) -> Mapping[str, Json]:
        return await self._read(reading.meta)

    async def proposal(self, ticket: int) -> StoredProposal | None:
        return await self._read(lambda connection: reading.proposal(connection, ticket))

    async def proposals(self) -> Sequence[StoredProposal]:
        """Every stored proposal, in ticket order, those of uncommitted tickets included."""
        return await self._read(reading.proposals)

    async def variants(self) -> Sequence[Variant]:
        return await self._read(reading.variants)

    async def variant(self, name: str) -> Variant | None:
        """One variant by its id."""
        return await self._read(lambda connection: reading.variant(connection, name))

    async def attempts(self) -> Sequence[Attempt]:
        return await self._read(reading.attempts)

    async def rollouts(self) -> Sequence[tuple[RolloutKey, int, Outcome | None]]:
        return await self._read(reading.rollouts)

    async def outcome(self, key: str) -> Outcome | None:
        """The outcome stored under a rollout's key as text; None while there is none."""
        return await self._read(lambda connection: reading.outcome(connection, key))

    async def rollout_counts(self) -> RolloutCounts:
        """How many rollouts finished, are open, and were lost to a crash and begun again."""
        return await self._read(reading.rollout_counts)

    async def ledger(self, after: int = 0) -> Sequence[LedgerEntry]:
        return await self._read(lambda connection: reading.ledger(connection, after))

    async def sound_ledger(self) -> Sequence[LedgerEntry]:
        """Every row, both chains computed again on the way. Raises IntegrityError."""
        return await self._read(audit.sound)

    async def sound_fold(self, take: Callable[[Iterator[LedgerEntry]], _T]) -> _T:
        """What `take` makes of every row, both chains computed again on the way; no row is kept. Raises IntegrityError.

        `take` runs in a thread.
        """

        def work(connection: sqlite3.Connection) -> _T:
            with audit.collector_paused():
                return take(audit.walk(connection))

        return await self._read(work)

    async def check_ledger(self) -> int:
        """Compute both chains again, quicker than reading the rows; how many there are. Raises IntegrityError."""
        return await self._read(audit.check)

    async def frame(self) -> Sequence[LedgerEntry]:
        """Every row but those of tickets, and the last ticket's."""
        return await self._read(reading.frame)

    async def links(self, seq: int) -> tuple[str, str] | None:
        """(hash, seal) of one row, None when there is no such row."""
        return await self._read(lambda connection: reading.row(connection, seq))

    async def tickets(self, after: int = -1) -> Sequence[LedgerEntry]:
        """The ledger rows of tickets numbered above `after`, in order."""
        return await self._read(lambda connection: reading.tickets(connection, after))

    async def ticket(self, number: int) -> LedgerEntry | None:
        """The ledger row of one ticket."""
        return await self._read(lambda connection: reading.ticket(connection, number))

    async def counts(self) -> Mapping[str, int]:
        """Committed tickets by verdict, from the ledger."""
        return await self._read(reading.counts)

    async def contents(self) -> Contents:
        """Every record as of one moment, for checking them against each other."""
        return await self._read(reading.contents)

    async def wall_s(self) -> float:
        """Seconds over all sessions, as of each one's last heartbeat."""
        return await self._read(reading.wall_s)

    async def head(self) -> tuple[str, str]:
        return (await self.head_at())[1:]

    async def head_at(self) -> tuple[int, str, str]:
        """(seq, hash, seal) of the last ledger row."""
        return await self._read(reading.head)


def _append(
    connection: sqlite3.Connection,
    kind: str,
    ticket: int | None,
    body: Mapping[str, Json] | None,
    obs: Mapping[str, Json],
) -> LedgerEntry:
    measured = reading.unsealed(connection)
    seen = obs if measured is None else {**obs, "measured": measured}
    entry = link(reading.head(connection), kind, ticket, body, seen)
    schema.insert(connection, "ledger", schema.LEDGER, schema.ledger_row(entry))
    if measured is not None:
        connection.execute("UPDATE rollouts SET sealed = ? WHERE sealed IS NULL AND status IS NOT NULL", (entry.seq,))
    return entry


def _commit(connection: sqlite3.Connection, commit: Commit) -> LedgerEntry:
    (last,) = connection.execute("SELECT max(ticket) FROM ledger").fetchone()
    if last is not None and commit.ticket <= last:
        raise ValueError(f"ticket {commit.ticket} comes after ticket {last}: tickets are committed in order")
    if commit.body.get("ticket") != commit.ticket:
        raise ValueError(f"the body of ticket {commit.ticket} names ticket {commit.body.get('ticket')}")
    if commit.variant is not None:
        schema.insert(connection, "variants", schema.VARIANT, schema.variant_row(commit.variant))
    if commit.attempt is not None:
        schema.insert(connection, "attempts", schema.ATTEMPT, schema.attempt_row(commit.attempt))
    return _append(connection, "ticket", commit.ticket, commit.body, commit.obs)


def _begin(connection: sqlite3.Connection, key: RolloutKey, seed: int) -> Outcome | None:
    found = reading.rollout(connection, key)
    if found is None:
        row = (str(key), key.tree, str(key.split), key.repeat, key.ticket, key.purpose, key.example, seed, 1)
        schema.insert(connection, "rollouts", schema.RESERVED, row)
        return None
    begun_with, outcome = found
    if begun_with != seed:
        raise IntegrityError(f"rollout {key}", expected=f"seed {begun_with}", found=f"seed {seed}")
    if outcome is None:
        connection.execute("UPDATE rollouts SET begun = begun + 1 WHERE key = ?", (str(key),))
    return outcome


def _finish(connection: sqlite3.Connection, key: RolloutKey, outcome: Outcome) -> None:
    found = reading.rollout(connection, key)
    if found is None:
        raise ValueError(f"rollout {key} was never begun")
    if found[1] == outcome:
        return
    if found[1] is not None:
        raise ValueError(f"rollout {key} already has another outcome")
    connection.execute(
        "UPDATE rollouts SET status = ?, score = ?, items = ?, detail = ?, outputs = ?, wall_s = ?, cpu_s = ?,"
        " memory_mb = ? WHERE key = ?",
        (*schema.outcome_row(outcome), str(key)),
    )


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
