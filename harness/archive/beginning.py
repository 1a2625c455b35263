"""When a run began, by its own first ledger row: a file's times move when somebody only looks at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.archive import schema
from harness.archive.database import FILE_NAME, translated, viewed
from harness.errors import StropError


def began(folder: Path) -> str:
    """The ISO 8601 stamp of the first row of the run in `folder`; empty where there is none or it cannot be read."""
    try:
        with translated(folder):
            connection, copy = viewed(folder / FILE_NAME)
            try:
                row = connection.execute("SELECT obs FROM ledger ORDER BY seq LIMIT 1").fetchone()
            finally:
                connection.close()
                if copy is not None:
                    copy.cleanup()
        seen: Any = {} if row is None else schema.loads(row[0])
        return str(seen.get("at") or "")
    except (StropError, ValueError, TypeError, AttributeError):
        return ""
