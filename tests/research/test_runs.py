"""Which run `last` is: the one that began last, by its own record."""

import os

from harness.archive.sqlite import SqliteArchive
from harness.research.runs import find_run, list_runs


async def begun(folder, at, *, open_now=False):
    archive = await SqliteArchive.create(folder)
    await archive.append("run", {}, {"at": at})
    await archive.append("session", None, {"at": "2026-01-09T00:00:00"})
    if not open_now:
        await archive.aclose()
    return archive


async def test_last_is_the_run_that_began_last_however_files_were_touched(tmp_path):
    await begun(tmp_path / "b", "2026-01-01T00:00:00.000+00:00")
    await begun(tmp_path / "a", "2026-01-02T00:00:00.000+00:00")
    (tmp_path / "b" / "report.html").write_text("looked at later")
    (tmp_path / "b" / "lock").write_text("{}")
    os.utime(tmp_path / "a", (1, 1))
    assert [one.name for one in list_runs(tmp_path)] == ["b", "a"]
    assert find_run(None, tmp_path).name == find_run("last", tmp_path).name == "a"


async def test_a_run_that_goes_on_now_is_read_beside_its_owner(tmp_path):
    await begun(tmp_path / "old", "2026-01-01T00:00:00.000+00:00")
    owner = await begun(tmp_path / "new", "2026-01-02T00:00:00.000+00:00", open_now=True)
    assert find_run(None, tmp_path).name == "new"
    await owner.aclose()


async def test_a_run_whose_records_cannot_be_read_is_placed_by_its_name(tmp_path):
    await begun(tmp_path / "toy-20260101-000000", "2026-01-01T00:00:00.000+00:00")
    await begun(tmp_path / "toy-20260103-000000", "2026-01-03T00:00:00.000+00:00")
    for name in ("toy-20260102-000000-2", "toy-20260104-000000", "nameless"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.db").write_bytes(b"not a database" * 100)
    order = [one.name.removeprefix("toy-202601") for one in list_runs(tmp_path)]
    assert order == ["nameless", "01-000000", "02-000000-2", "03-000000", "04-000000"]
