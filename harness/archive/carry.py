"""Rows of run.db as JSON values, table by table, and back: how an archive travels without its database file.

A foreign database could hold triggers, views and what not; rows are put into tables of our own making.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from harness.archive import schema
from harness.archive.calls import lay_calls
from harness.records import Json

# every column of every table that travels; `schema` is made by whoever lays the tables
COLUMNS: Mapping[str, str] = {
    "meta": "name, value",
    "state": "one, state, reason",
    "ledger": schema.LEDGER,
    "proposals": schema.PROPOSAL,
    "variants": schema.VARIANT,
    "attempts": schema.ATTEMPT,
    "rollouts": "n, key, tree, split, repeat, ticket, purpose, example, seed, begun, "
    "status, score, items, detail, outputs, wall_s, cpu_s, memory_mb, sealed",
    "sessions": "n, wall_s",
    "calls": "ticket, role, call, digest, model, dialect, variant, request, held_requests, held_in, held_out, "
    "held_nano, requests, tokens_in, tokens_out, nano_usd, estimated, status, media, body",
}


def pour(connection: sqlite3.Connection, tell: Callable[[str, list[Json]], None]) -> None:
    """Tell every row of every table as of one moment."""
    connection.execute("BEGIN")
    try:
        for table, columns in COLUMNS.items():
            if table == "calls" and not _has(connection, table):
                continue
            order = "1, 2, 3" if table == "calls" else "1"
            for row in connection.execute(f"SELECT {columns} FROM {table} ORDER BY {order}"):  # noqa: S608 - constants
                tell(table, [_told(value) for value in row])
    finally:
        connection.execute("ROLLBACK")


def fill(connection: sqlite3.Connection, table: object, values: Sequence[object]) -> None:
    """Put one row back; one of an earlier version may lack its last columns. Raises ValueError for no row of ours."""
    columns = COLUMNS.get(table, "").split(", ") if isinstance(table, str) else [""]
    if columns == [""] or not 0 < len(values) <= len(columns):
        raise ValueError(f"no row of {str(table)[:40]!r}")
    if table == "calls":
        lay_calls(connection)
    marks = ", ".join("?" * len(values))
    named = ", ".join(columns[: len(values)])
    order = "INSERT OR REPLACE" if table == "state" else "INSERT"
    row = [_kept(value) for value in values]
    connection.execute(f"{order} INTO {table} ({named}) VALUES ({marks})", row)


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _told(value: object) -> Json:
    if isinstance(value, bytes):
        return [base64.b64encode(value).decode()]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"a {type(value).__name__} in run.db")


def _kept(value: object) -> str | int | float | bytes | None:
    if isinstance(value, list):
        (packed,) = cast("list[Any]", value)
        return base64.b64decode(str(packed), validate=True)
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"a {type(value).__name__} is no value of a row")
