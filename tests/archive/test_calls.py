"""The journal of model calls in run.db."""

import os
import sqlite3
import zlib
from contextlib import closing
from dataclasses import replace

import anyio

from harness.archive import calls
from harness.archive.sqlite import SqliteArchive
from harness.records import ModelCall, Reply, Spend

CALL = ModelCall(1, "proposer", 0, "d" * 64, "m", "chat", "v1", Spend(1, 50, 60, 70), Spend(), None)


async def test_a_run_without_models_has_no_such_table(tmp_path):
    archive = await SqliteArchive.create(tmp_path / "run")
    assert await archive.journal().calls() == []
    await archive.aclose()


async def test_a_call_comes_back_as_it_was_written(tmp_path):
    archive = await SqliteArchive.create(tmp_path / "run")
    journal = archive.journal()
    await journal.begin_call(CALL, b"request")
    begun = await journal.calls()
    done = replace(CALL, held=Spend(), spent=Spend(1, 5, 6, 7, True), reply=Reply(200, "text/event-stream", b"\0\xff"))
    await journal.finish_call(done)
    await archive.aclose()
    assert begun == [CALL]
    view = await SqliteArchive.view(tmp_path / "run")
    assert await view.journal().calls() == [done]
    await view.aclose()


async def test_another_try_of_a_call_keeps_what_the_first_took(tmp_path):
    archive = await SqliteArchive.create(tmp_path / "run")
    journal = archive.journal()
    await journal.begin_call(CALL, b"request")
    settled = replace(CALL, held=Spend(), spent=Spend(1, 5))
    await journal.finish_call(settled)
    again = replace(settled, held=CALL.held)
    await journal.begin_call(again, b"request")
    assert await journal.calls() == [again]
    await archive.aclose()


async def test_many_writers_at_once_all_find_their_rows_on_disk(tmp_path):
    archive = await SqliteArchive.create(tmp_path / "run")
    journal = archive.journal()

    async def one(number):
        call = replace(CALL, call=number)
        await journal.begin_call(call, b"request")
        await journal.finish_call(replace(call, held=Spend(), spent=Spend(1, number), reply=Reply(200, "", b"")))

    async with anyio.create_task_group() as group:
        for number in range(64):
            group.start_soon(one, number)
    found = await journal.calls()
    await archive.aclose()
    assert [call.spent.tokens_in for call in found] == list(range(64))


def task(number, body):
    done = replace(CALL, role="task/x", call=number, held=Spend(), spent=Spend(1, 5), reply=Reply(200, "", body))
    return replace(done, held=CALL.held, spent=Spend(), reply=None), done


async def test_what_the_calls_of_a_rollout_leave_on_the_disk_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(calls, "MAKER_REQUESTS", 60_000)
    monkeypatch.setattr(calls, "MAKER_REPLIES", 2_500)
    archive = await SqliteArchive.create(tmp_path / "run")
    journal = archive.journal()
    for number in range(4):
        begun, done = task(number, b"y" * 1000)
        await journal.begin_call(begun, os.urandom(20_000))
        await journal.finish_call(done)
    found = await journal.calls()
    assert [one.reply is not None for one in found] == [True, True, False, False]
    assert [one.spent.requests for one in found] == [1] * 4  # what was not kept was still paid for
    assert all(one.held == Spend() for one in found)
    # another session goes on where the first one stopped
    again = archive.journal()
    await again.calls()
    begun, done = task(4, b"y" * 1000)
    await again.begin_call(begun, os.urandom(20_000))
    await again.finish_call(done)
    # a proposer's replies are what a replay reads, and another rollout has its own room
    kept = replace(CALL, call=5, reply=Reply(200, "", b"z" * 5000))
    other = replace(done, call=6, variant="v2")
    for one in (kept, other):
        await again.begin_call(replace(one, reply=None), b"small")
        await again.finish_call(one)
    found = await again.calls()
    assert {(one.ticket, one.call) for one in found if one.reply is not None} == {(1, 0), (1, 1), (1, 5), (1, 6)}
    await archive.aclose()
    with closing(sqlite3.connect(tmp_path / "run" / "run.db")) as connection:
        (size,) = connection.execute("SELECT sum(length(request)) FROM calls WHERE role = 'task/x'").fetchone()
    assert 40_000 <= size <= 60_000


async def test_a_large_request_is_its_digest_and_a_recording_keeps_every_reply(tmp_path, monkeypatch):
    monkeypatch.setattr(calls, "MAKER_REPLIES", 10)
    archive = await SqliteArchive.create(tmp_path / "run")
    begun, done = task(0, b"y" * 1000)
    await archive.journal(whole=True).begin_call(begun, b"x" * (calls.MOST_REQUEST + 1))
    await archive.journal(whole=True).finish_call(done)
    assert await archive.journal().calls() == [done]
    await archive.aclose()
    with closing(sqlite3.connect(tmp_path / "run" / "run.db")) as connection:
        (packed,) = connection.execute("SELECT request FROM calls").fetchone()
    assert zlib.decompress(packed) == b""
