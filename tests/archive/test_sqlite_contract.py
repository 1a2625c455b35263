"""SqliteArchive keeps the archive contract."""

from __future__ import annotations

from pathlib import Path

from harness.archive.base import Archive
from harness.archive.sqlite import SqliteArchive
from harness.testing.archive_contract import ArchiveContract


class TestSqliteArchive(ArchiveContract):
    async def make(self, folder: Path) -> Archive:
        return await SqliteArchive.create(folder)

    async def reopen(self, folder: Path) -> Archive:
        return await SqliteArchive.open(folder)
