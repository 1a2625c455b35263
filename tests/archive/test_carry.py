import pytest

from harness.archive.carry import COLUMNS
from harness.archive.sqlite import SqliteArchive
from harness.errors import IntegrityError
from harness.records import ModelCall, Outcome, RolloutKey, Spend, Split, Status

KEY = RolloutKey("t", Split.VISIBLE)


async def filled(folder):
    archive = await SqliteArchive.create(folder)
    await archive.begin_rollout(KEY, 7)
    await archive.finish_rollout(KEY, Outcome(Status.OK, -0.0, {"a": 0.1}, memory_mb=3.5))
    await archive.journal().begin_call(ModelCall(1, "agent", 0, "d", "m", "chat", "v0", Spend(), Spend(), None), b"x")
    await archive.set_meta("note", {"a": [1, 2.5, None]})
    return archive


async def test_every_column_of_every_table_travels(tmp_path):
    archive = await filled(tmp_path / "one")

    def columns(connection):
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} for table in tables}

    laid = await archive._read(columns)
    await archive.aclose()
    del laid["schema"]
    assert laid == {table: set(names.split(", ")) for table, names in COLUMNS.items()}


async def test_rows_come_back_bit_for_bit(tmp_path):
    one, rows = await filled(tmp_path / "one"), []
    await one.pour(lambda table, values: rows.append((table, values)))
    two, again = await SqliteArchive.create(tmp_path / "two"), []
    await two.fill(iter(rows))
    await two.pour(lambda table, values: again.append((table, values)))
    assert repr(again) == repr(rows)
    assert await two.rollouts() == await one.rollouts()
    await one.aclose()
    await two.aclose()


async def test_a_row_of_an_earlier_version_lacks_its_last_columns(tmp_path):
    one, rows = await filled(tmp_path / "one"), []
    await one.pour(lambda table, values: rows.append((table, values[:-2] if table == "rollouts" else values)))
    await one.aclose()
    two = await SqliteArchive.create(tmp_path / "two")
    await two.fill(iter(rows))
    ((_, _, outcome),) = await two.rollouts()
    assert outcome.memory_mb is None
    await two.aclose()


@pytest.mark.parametrize("row", [("rollouts", []), ("meta", ["a", "b", "c"]), ("nothing", [1]), ("meta", [["!"], "x"])])
async def test_what_is_no_row_of_ours_is_refused_whole(tmp_path, row):
    archive = await SqliteArchive.create(tmp_path / "one")
    with pytest.raises(IntegrityError):
        await archive.fill(iter([("meta", ["good", "1"]), row]))
    assert await archive.meta() == {}
    await archive.aclose()
