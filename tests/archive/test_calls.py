"""The journal of model calls in run.db."""

from dataclasses import replace

import anyio

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
    calls = await journal.calls()
    await archive.aclose()
    assert [call.spent.tokens_in for call in calls] == list(range(64))
