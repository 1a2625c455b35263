"""One SQLite connection and what its errors mean here.

Settings: WAL, synchronous=FULL, BEGIN IMMEDIATE. A full or read-only disk is a StorageError, a damaged file an
IntegrityError.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from pathlib import Path

from harness.archive.schema import TABLES, VERSION
from harness.errors import InputError, IntegrityError, StorageError, StropError

FILE_NAME = "run.db"
BUSY_S = 10.0

# SQLITE_ERROR is a statement that does not fit the tables: all statements are constants, so the tables changed
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}


@contextlib.contextmanager
def translated(folder: Path) -> Generator[None]:
    """SQLite's and the system's errors as this project's."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(folder, error) from error
    except OSError as error:
        raise StorageError(folder, reason=error.strerror or str(error)) from error


def explain(folder: Path, error: sqlite3.Error) -> StropError:
    """The StorageError or IntegrityError that `error` amounts to."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in _DAMAGED or (primary is None and "decode" in str(error)):
        return IntegrityError(FILE_NAME, expected="a sound database", found=str(error))
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StorageError(folder, reason=str(error), doing="open", mend="check that you may read what is in it")
    return StorageError(folder, reason=str(error))


def connect(path: Path, *, mode: str) -> sqlite3.Connection:
    """A connection in autocommit mode; `mode` is "rwc", "rw" or "ro"."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        if mode != "ro":
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA fullfsync=ON")
    except BaseException:  # here and below: a cancelled opening must not leave its connection
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """BEGIN IMMEDIATE to COMMIT; rolled back whole on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def make(path: Path) -> sqlite3.Connection:
    """A new database with its tables, made in one transaction. Raises InputError when there is one already."""
    connection = connect(path, mode="rwc")
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        with transaction(connection):
            _lay_tables(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _lay_tables(connection: sqlite3.Connection, path: Path) -> None:
    if has_tables(connection):
        raise InputError("a run lives here already", file=path, mend="`strop resume` it or name a new folder")
    for statement in TABLES.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO schema VALUES (?)", (VERSION,))
    connection.execute("INSERT INTO state VALUES (1, 'created', '')")


def has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema'").fetchone() is not None


def owned(path: Path) -> sqlite3.Connection:
    """The owner's connection to an existing database."""
    present(path)
    connection = connect(path, mode="rw")
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def viewed(path: Path) -> tuple[sqlite3.Connection, tempfile.TemporaryDirectory[str] | None]:
    """A read-only connection, beside a live owner or on a read-only copy.

    Where SQLite cannot make its shared memory (a read-only file system), a private copy is read instead; the
    second value is its folder, to be cleaned up after closing.
    """
    present(path)
    connection: sqlite3.Connection | None = None
    try:
        connection = connect(path, mode="ro")
        check_version(connection, path)
    except sqlite3.OperationalError:
        if connection is not None:
            connection.close()
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    else:
        return connection, None
    return _copied(path)


def _copied(path: Path) -> tuple[sqlite3.Connection, tempfile.TemporaryDirectory[str]]:
    folder = tempfile.TemporaryDirectory(prefix="strop-view-")
    try:
        for suffix in ("", "-wal"):
            source = path.with_name(path.name + suffix)
            if source.exists():
                shutil.copyfile(source, Path(folder.name) / source.name)
        copy = Path(folder.name) / path.name
        connection = connect(copy, mode="rw")
        try:
            check_version(connection, path)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        folder.cleanup()
        raise
    return connection, folder


def present(path: Path) -> None:
    """Raises InputError when there is no database."""
    if not path.exists():
        raise InputError("there is no run here", file=path.parent, mend="name a run folder made by `strop run`")


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raises InputError for a run that was never begun or that another version wrote."""
    if not has_tables(connection):
        raise InputError("the run was never begun", file=path, mend="remove the folder and start it again")
    row = connection.execute("SELECT version FROM schema").fetchone()
    found = row[0] if row else None
    if not isinstance(found, int):
        raise IntegrityError(FILE_NAME, expected=f"schema version {VERSION}", found=repr(found))
    if found != VERSION:
        right = "a newer" if found > VERSION else "an older"
        raise InputError(
            f"written with schema {found}, this version reads {VERSION}", file=path, mend=f"use {right} strop for it"
        )
