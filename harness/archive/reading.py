"""What can be asked of run.db, each question a function of one connection."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from harness.archive import schema
from harness.archive.base import LedgerEntry, StoredProposal
from harness.archive.ledger import ZEROS
from harness.records import Attempt, Json, Outcome, RolloutKey, Variant


@dataclass(frozen=True, slots=True)
class RolloutCounts:
    """`finished` have an outcome, `unfinished` were begun and have none; `lost` were begun again after a crash."""

    finished: int
    unfinished: int
    lost: int


@dataclass(frozen=True, slots=True)
class Contents:
    """All of an archive's records as of one moment. `sealed` is {ledger row: digest of the rollouts it sealed}."""

    ledger: list[LedgerEntry]
    proposals: list[StoredProposal]
    variants: list[Variant]
    attempts: list[Attempt]
    rollouts: list[tuple[RolloutKey, int, Outcome | None]]
    sealed: Mapping[int, str]


def contents(connection: sqlite3.Connection) -> Contents:
    """Everything in one read transaction, so that a live owner's next commit is in all of it or in none."""
    connection.execute("BEGIN")
    try:
        return Contents(
            ledger(connection, 0),
            proposals(connection),
            variants(connection),
            attempts(connection),
            rollouts(connection),
            sealed(connection),
        )
    finally:
        connection.execute("ROLLBACK")


def head(connection: sqlite3.Connection) -> tuple[int, str, str]:
    """(seq, hash, seal) of the last ledger row; zeros when there is none."""
    row = connection.execute("SELECT seq, hash, seal FROM ledger ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, ZEROS, ZEROS) if row is None else (row[0], row[1], row[2])


def ledger(connection: sqlite3.Connection, after: int) -> list[LedgerEntry]:
    rows = connection.execute(f"SELECT {schema.LEDGER} FROM ledger WHERE seq > ? ORDER BY seq", (after,))  # noqa: S608
    return [schema.as_ledger(row) for row in rows]


def frame(connection: sqlite3.Connection) -> list[LedgerEntry]:
    """Every row but those of tickets, and the last ticket's: where a run stands without all that it did."""
    rows = connection.execute(
        f"SELECT {schema.LEDGER} FROM ledger WHERE ticket IS NULL"  # noqa: S608 - constants
        f" OR ticket = (SELECT max(ticket) FROM ledger) ORDER BY seq"
    )
    return [schema.as_ledger(row) for row in rows]


def row(connection: sqlite3.Connection, seq: int) -> tuple[str, str] | None:
    """(hash, seal) of one row."""
    return connection.execute("SELECT hash, seal FROM ledger WHERE seq = ?", (seq,)).fetchone()


def tickets(connection: sqlite3.Connection, after: int) -> list[LedgerEntry]:
    rows = connection.execute(
        f"SELECT {schema.LEDGER} FROM ledger WHERE kind = 'ticket' AND ticket > ? ORDER BY seq",  # noqa: S608
        (after,),
    )
    return [schema.as_ledger(row) for row in rows]


def ticket(connection: sqlite3.Connection, number: int) -> LedgerEntry | None:
    row = connection.execute(f"SELECT {schema.LEDGER} FROM ledger WHERE ticket = ?", (number,)).fetchone()  # noqa: S608
    return None if row is None else schema.as_ledger(row)


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    found: Counter[str] = Counter()
    for entry in tickets(connection, -1):
        decision = None if entry.body is None else entry.body.get("decision")
        if isinstance(decision, dict):
            found[str(decision.get("verdict"))] += 1
    return dict(sorted(found.items()))


def meta(connection: sqlite3.Connection) -> dict[str, Json]:
    rows = connection.execute("SELECT name, value FROM meta ORDER BY name")
    return {name: schema.loads(value) for name, value in rows}


def proposal(connection: sqlite3.Connection, number: int) -> StoredProposal | None:
    row = connection.execute(
        f"SELECT {schema.PROPOSAL} FROM proposals WHERE ticket = ?",  # noqa: S608
        (number,),
    ).fetchone()
    return None if row is None else schema.as_proposal(row)


def proposals(connection: sqlite3.Connection) -> list[StoredProposal]:
    rows = connection.execute(f"SELECT {schema.PROPOSAL} FROM proposals ORDER BY ticket")  # noqa: S608
    return [schema.as_proposal(row) for row in rows]


def variants(connection: sqlite3.Connection) -> list[Variant]:
    rows = connection.execute(f"SELECT {schema.VARIANT} FROM variants ORDER BY ticket, id")  # noqa: S608
    return [schema.as_variant(row) for row in rows]


def variant(connection: sqlite3.Connection, name: str) -> Variant | None:
    row = connection.execute(f"SELECT {schema.VARIANT} FROM variants WHERE id = ?", (name,)).fetchone()  # noqa: S608
    return None if row is None else schema.as_variant(row)


def attempts(connection: sqlite3.Connection) -> list[Attempt]:
    rows = connection.execute(f"SELECT {schema.ATTEMPT} FROM attempts ORDER BY ticket")  # noqa: S608
    return [schema.as_attempt(row) for row in rows]


def rollouts(connection: sqlite3.Connection) -> list[tuple[RolloutKey, int, Outcome | None]]:
    rows = connection.execute(f"SELECT {schema.ROLLOUT} FROM rollouts ORDER BY n")  # noqa: S608
    return [schema.as_rollout(row) for row in rows]


def unsealed(connection: sqlite3.Connection) -> str | None:
    """The digest of the rollouts that ended since the last ledger row; None when there is none."""
    rows = connection.execute(
        f"SELECT {schema.ROLLOUT} FROM rollouts WHERE sealed IS NULL AND status IS NOT NULL ORDER BY n"  # noqa: S608
    ).fetchall()
    return schema.digest(rows) if rows else None


def sealed(connection: sqlite3.Connection) -> dict[int, str]:
    """{ledger row: digest of the rollouts it sealed}."""
    rows = connection.execute(
        f"SELECT sealed, {schema.ROLLOUT} FROM rollouts WHERE sealed IS NOT NULL ORDER BY sealed, n"  # noqa: S608
    )
    return {seq: schema.digest(row[1:] for row in group) for seq, group in groupby(rows, key=lambda row: row[0])}


def rollout(connection: sqlite3.Connection, key: RolloutKey) -> tuple[int, Outcome | None] | None:
    row = connection.execute(
        f"SELECT {schema.ROLLOUT} FROM rollouts WHERE key = ?",  # noqa: S608
        (str(key),),
    ).fetchone()
    return None if row is None else schema.as_rollout(row)[1:]


def outcome(connection: sqlite3.Connection, key: str) -> Outcome | None:
    row = connection.execute(f"SELECT {schema.ROLLOUT} FROM rollouts WHERE key = ?", (key,)).fetchone()  # noqa: S608
    return None if row is None else schema.as_rollout(row)[2]


def rollout_counts(connection: sqlite3.Connection) -> RolloutCounts:
    begun, rows, finished = connection.execute(
        "SELECT coalesce(sum(begun), 0), count(*), count(status) FROM rollouts"
    ).fetchone()
    return RolloutCounts(finished, rows - finished, begun - rows)


def wall_s(connection: sqlite3.Connection) -> float:
    return float(connection.execute("SELECT coalesce(sum(wall_s), 0.0) FROM sessions").fetchone()[0])
