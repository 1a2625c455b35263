"""SqliteArchive against the machine: kill -9, a full disk, read-only folders, damaged files, other processes."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from contextlib import aclosing
from pathlib import Path

import pytest

from harness.archive.ledger import verify_chain
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError, IntegrityError, StorageError
from harness.records import Outcome, RolloutKey, Split, Status
from harness.testing.archive_contract import KEY, OUTCOME, a_commit

KILLS = 20

WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    import anyio
    from harness.archive.base import Commit
    from harness.archive.sqlite import SqliteArchive
    from harness.records import Attempt, Outcome, RolloutKey, Split, Status, Variant, Verdict

    def a_commit(ticket):
        variant = Variant(f"v{ticket}", ticket, "a" * 40, ("v0",), Verdict.KEPT, 0.5)
        attempt = Attempt(ticket, "v0", variant.id, Verdict.KEPT, 0.5, 0.4, "", {})
        return Commit(ticket, {"ticket": ticket}, {}, variant, attempt)

    async def main():
        archive = await SqliteArchive.open(Path(sys.argv[1]))
        rows = await archive.tickets()
        ticket = rows[-1].ticket if rows else 0
        while True:
            ticket += 1
            key = RolloutKey("a" * 40, Split.VISIBLE, ticket=ticket)
            if await archive.begin_rollout(key, ticket) is None:
                await archive.finish_rollout(key, Outcome(Status.OK, float(ticket)))
            await archive.commit(a_commit(ticket))
            print(ticket, flush=True)

    anyio.run(main)
""")


async def made(folder: Path) -> SqliteArchive:
    return await SqliteArchive.create(folder)


def a_child(code: str, *argv: object, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def ran(code: str, *argv: Path) -> subprocess.CompletedProcess[str]:
    with a_child(code, *argv) as child:
        out, err = child.communicate()
    return subprocess.CompletedProcess(argv, child.returncode, out, err)


async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path):
    await (await made(tmp_path)).aclose()
    acknowledged = 0
    for kill in range(KILLS):
        with a_child(WRITER, tmp_path) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(1 + kill % 4)]
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().split("\n")
            assert lines[0], child.stderr.read() if child.stderr else ""
            complete = [*lines, *(line for line in rest[:-1])]
            acknowledged = int(complete[-1])
        async with aclosing(await SqliteArchive.view(tmp_path)) as archive:
            contents = await archive.contents()
        verify_chain(contents.ledger)
        tickets = [row.ticket for row in contents.ledger]
        assert tickets == list(range(1, len(tickets) + 1))
        assert len(tickets) in (acknowledged, acknowledged + 1)
        assert [one.ticket for one in contents.attempts] == tickets
        assert [one.ticket for one in contents.variants] == tickets
        finished = {key.ticket for key, _, outcome in contents.rollouts if outcome is not None}
        assert finished >= set(tickets)
    assert acknowledged >= KILLS


@pytest.mark.parametrize("place", ["archive-uncommitted", "archive-committed"])
async def test_death_around_the_commit_leaves_all_or_nothing(tmp_path, place):
    await (await made(tmp_path)).aclose()
    env = {**os.environ, "STROP_FAILPOINT": f"{place}:6"}
    with a_child(WRITER, tmp_path, env=env) as child:
        assert child.communicate()[0] == "1\n"
    async with aclosing(await SqliteArchive.open(tmp_path)) as archive:
        there = place == "archive-committed"
        assert len(await archive.tickets()) == (2 if there else 1)
        assert len(await archive.attempts()) == (2 if there else 1)
        verify_chain(await archive.ledger())


async def test_lost_rollouts_are_counted(tmp_path):
    async with aclosing(await made(tmp_path)) as archive:
        other = RolloutKey("b" * 40, Split.VISIBLE)
        for _ in range(3):
            assert await archive.begin_rollout(KEY, 1) is None
        await archive.begin_rollout(other, 1)
        await archive.finish_rollout(other, OUTCOME)
        counts = await archive.rollout_counts()
        assert (counts.finished, counts.unfinished, counts.lost) == (1, 1, 2)


async def test_wall_time_adds_up_over_sessions(tmp_path):
    async with aclosing(await made(tmp_path)) as archive:
        assert await archive.wall_s() == 0
        await archive.heartbeat(1.0)
        await archive.heartbeat(2.5)
        assert await archive.wall_s() == 2.5
    async with aclosing(await SqliteArchive.open(tmp_path)) as archive:
        await archive.heartbeat(4.0)
        assert await archive.wall_s() == 6.5


async def test_questions_about_tickets_and_variants(tmp_path):
    async with aclosing(await made(tmp_path)) as archive:
        await archive.append("run", {"seed": 1}, {})
        for ticket in (1, 2):
            await archive.commit(a_commit(ticket))
        await archive.commit(a_commit(3, variant=False))
        assert await archive.counts() == {"kept": 2, "no_proposal": 1}
        assert [row.ticket for row in await archive.tickets(after=1)] == [2, 3]
        row = await archive.ticket(2)
        assert row is not None
        assert row.seq == 3
        assert await archive.ticket(9) is None
        assert await archive.variant("v2") == a_commit(2).variant
        assert await archive.variant("v9") is None
        assert (await archive.head_at())[0] == 4


async def test_a_body_of_another_ticket_is_refused(tmp_path):
    async with aclosing(await made(tmp_path)) as archive:
        commit = a_commit(1)
        with pytest.raises(ValueError, match="names ticket 2"):
            await archive.commit(type(commit)(1, {"ticket": 2}, {}, commit.variant, commit.attempt))
        assert not await archive.variants()


async def test_a_view_follows_a_live_owner_and_cannot_write(tmp_path):
    async with aclosing(await made(tmp_path)) as owner, aclosing(await SqliteArchive.view(tmp_path)) as viewer:
        assert not await viewer.ledger()
        await owner.commit(a_commit(1))
        assert len(await viewer.ledger()) == 1
        with pytest.raises(StorageError, match="viewing only"):
            await viewer.set_meta("a", 1)


# root passes every permission check, so its capabilities are dropped: then a read-only folder is one
UNPRIVILEGED = textwrap.dedent("""
    import ctypes, os
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
""")

LOOK = textwrap.dedent("""
    import sqlite3, sys
    from pathlib import Path
    import anyio
    from harness.archive.sqlite import SqliteArchive

    async def main():
        archive = await SqliteArchive.view(Path(sys.argv[1]))
        print(len(await archive.ledger()))
        await archive.aclose()

    anyio.run(main)
""")


@pytest.mark.parametrize("live", [True, False])
async def test_a_read_only_copy_is_read_whole_with_its_log(tmp_path, live):
    folder, copy = tmp_path / "run", tmp_path / "copy"
    archive = await made(folder)
    await archive.commit(a_commit(1))
    copy.mkdir()
    if not live:
        await archive.aclose()
    for name in ("run.db", "run.db-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, copy / name)
    assert (copy / "run.db-wal").exists() == live
    if live:
        await archive.aclose()
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    for path in (*copy.iterdir(), copy):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        found = ran(UNPRIVILEGED + LOOK, copy)
    finally:
        copy.chmod(0o755)
    assert found.stdout == "1\n", found.stderr
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


async def test_a_folder_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="mend"):
        await SqliteArchive.create(tmp_path / "file" / "run")


async def test_opening_a_read_only_run_is_a_storage_error(tmp_path):
    await (await made(tmp_path)).aclose()
    code = UNPRIVILEGED + LOOK.replace(".view(", ".open(").replace(
        "await archive.ledger()", "[await archive.append('run', {}, {})]"
    )
    for path in (*tmp_path.iterdir(), tmp_path):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        done = ran(code, tmp_path)
    finally:
        tmp_path.chmod(0o755)
    assert done.returncode != 0
    assert "StorageError" in done.stderr


FILL = textwrap.dedent("""
    import resource, sys
    from pathlib import Path
    import anyio
    from harness.archive.sqlite import SqliteArchive
    from harness.errors import StorageError
    from harness.testing.archive_contract import a_commit

    async def main():
        archive = await SqliteArchive.open(Path(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        ticket = 0
        try:
            while ticket < 10_000:
                await archive.commit(a_commit(ticket + 1))
                ticket += 1
        except StorageError as error:
            print(ticket, error.reason)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await archive.commit(a_commit(ticket + 1))
        await archive.aclose()

    anyio.run(main)
""")


async def test_a_full_disk_is_a_storage_error_and_the_run_goes_on_when_there_is_room(tmp_path):
    await (await made(tmp_path)).aclose()
    done = ran(FILL, tmp_path)
    assert done.returncode == 0, done.stderr
    acknowledged, _, reason = done.stdout.strip().partition(" ")
    assert reason
    async with aclosing(await SqliteArchive.open(tmp_path)) as archive:
        rows = await archive.ledger()
        verify_chain(rows)
        assert len(rows) == int(acknowledged) + 1


async def test_a_second_run_in_the_same_folder_is_refused(tmp_path):
    await (await made(tmp_path)).aclose()
    before = (tmp_path / "run.db").read_bytes()
    with pytest.raises(InputError, match="a run lives here"):
        await made(tmp_path)
    assert (tmp_path / "run.db").read_bytes() == before


@pytest.mark.parametrize("opened", [SqliteArchive.open, SqliteArchive.view])
async def test_what_is_no_run_says_so(tmp_path, opened):
    with pytest.raises(InputError, match="no run here"):
        await opened(tmp_path)
    (tmp_path / "run.db").touch()
    with pytest.raises(InputError, match="never begun"):
        await opened(tmp_path)
    # a create that died before its tables were there may be taken up again
    await (await made(tmp_path)).aclose()


@pytest.mark.parametrize("opened", [SqliteArchive.open, SqliteArchive.view])
async def test_a_damaged_database_is_an_integrity_error(tmp_path, opened):
    (tmp_path / "run.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(IntegrityError, match="sound database"):
        await opened(tmp_path)


@pytest.mark.parametrize("opened", [SqliteArchive.open, SqliteArchive.view])
async def test_a_newer_schema_is_left_alone(tmp_path, opened):
    await (await made(tmp_path)).aclose()
    edit(tmp_path, "UPDATE schema SET version = 99")
    with pytest.raises(InputError, match="newer strop"):
        await opened(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET body = 'x'",
        "UPDATE ledger SET obs = '[]'",
        "UPDATE ledger SET body = '{\"n\":NaN}'",
        "UPDATE ledger SET body = CAST(x'ff' AS TEXT)",
        "UPDATE attempts SET verdict = 'splendid'",
        "UPDATE attempts SET memo = '[1]'",
        "UPDATE variants SET parents = '{}'",
        "UPDATE variants SET parents = x'00'",
        "UPDATE rollouts SET status = 'splendid'",
        "UPDATE rollouts SET items = NULL",
        "DROP TABLE variants",
    ],
)
async def test_nonsense_in_a_row_is_an_integrity_error(tmp_path, statement):
    async with aclosing(await made(tmp_path)) as archive:
        await archive.begin_rollout(KEY, 1)
        await archive.finish_rollout(KEY, OUTCOME)
        await archive.commit(a_commit(1))
    edit(tmp_path, statement)
    async with aclosing(await SqliteArchive.view(tmp_path)) as archive:
        with pytest.raises(IntegrityError):
            await archive.contents()


async def test_text_from_candidates_fits_any_column(tmp_path):
    hostile = "\x00\ud800\u202e\x1b[31m\U0001f40d'; DROP TABLE ledger; --"
    async with aclosing(await made(tmp_path)) as archive:
        await archive.begin_rollout(KEY, 1)
        await archive.finish_rollout(KEY, Outcome(Status.TIMEOUT, detail=hostile, outputs=hostile))
        await archive.set_meta("a", hostile)
        await archive.append("stop", {"reason": hostile}, {"at": hostile})
        row = (await archive.ledger())[0]
        assert row.body == {"reason": hostile}
        verify_chain([row])
        found = (await archive.rollouts())[0][2]
        assert found is not None
        assert "\\ud800" in found.detail


async def test_using_it_after_closing_is_an_error(tmp_path):
    archive = await made(tmp_path)
    await archive.aclose()
    await archive.aclose()
    with pytest.raises(StorageError, match="closed"):
        await archive.ledger()
    with pytest.raises(StorageError, match="closed"):
        await archive.set_meta("a", 1)
    assert stat.S_ISREG((tmp_path / "run.db").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.db"]


def edit(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "run.db")
    with connection:
        connection.execute(statement)
    connection.close()
