import gc
import sqlite3

import pytest

from harness.archive.audit import collector_paused
from harness.archive.sqlite import SqliteArchive
from harness.errors import IntegrityError


async def filled(folder):
    archive = await SqliteArchive.create(folder)
    for number in range(4):
        await archive.append("run" if number == 0 else "session", {"n": number} if number == 0 else None, {"at": "now"})
    return archive


async def test_sound_rows_are_the_ledgers(tmp_path):
    archive = await filled(tmp_path)
    assert await archive.sound_ledger() == await archive.ledger()
    await archive.aclose()


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ("UPDATE ledger SET body = '{\"n\":1}' WHERE seq = 1", 1),
        ('UPDATE ledger SET obs = \'{"at":"then"}\' WHERE seq = 3', 3),
        ("UPDATE ledger SET hash = 'x' WHERE seq = 2", 2),
        ("DELETE FROM ledger WHERE seq = 2", 2),
        ("UPDATE ledger SET ticket = 7 WHERE seq = 4", 4),
    ],
)
async def test_whatever_is_changed_is_named(tmp_path, change, row):
    await (await filled(tmp_path)).aclose()
    with sqlite3.connect(tmp_path / "run.db") as connection:
        connection.execute(change)
    connection.close()
    archive = await SqliteArchive.view(tmp_path)
    with pytest.raises(IntegrityError, match=f"ledger {row}"):
        await archive.sound_ledger()
    await archive.aclose()


def test_the_collector_is_as_it_was():
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
