"""Calls at the same time: never more than there are slots, and never all of them one ticket's."""

import anyio
import numpy as np
import pytest
from model.gateways import CHAT, client_of, opened
from model.odd import HANG, OK, picky, said

from harness.model.base import Caller
from harness.model.slots import Slots


async def settled():
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


class Holding:
    """Tasks that hold slots until they are told to leave."""

    def __init__(self, group, slots):
        self.group, self.slots = group, slots
        self.held = []

    def start(self, ticket, times=1):
        for _ in range(times):
            self.group.start_soon(self._hold, ticket)

    async def _hold(self, ticket):
        async with self.slots.one(ticket):
            leave = anyio.Event()
            self.held.append((ticket, leave))
            await leave.wait()

    def count(self, ticket):
        return sum(one == ticket and not leave.is_set() for one, leave in self.held)


@pytest.mark.parametrize(("total", "most"), [(1, 1), (2, 2), (3, 3), (4, 3), (64, 48)])
async def test_one_ticket_never_has_them_all_where_there_are_several(total, most):
    async with anyio.create_task_group() as group:
        holding = Holding(group, Slots(total))
        holding.start(1, 200)
        await settled()
        assert holding.count(1) == most
        holding.start(2, 200)
        await settled()
        assert holding.count(2) == min(total - most, max(1, total // 8))
        group.cancel_scope.cancel()


async def test_who_waits_is_served_in_turn_and_leaving_gives_back():
    async with anyio.create_task_group() as group:
        slots = Slots(2)
        holding = Holding(group, slots)
        for ticket in (1, 1, 2, 1, 3):
            holding.start(ticket)
        await settled()
        assert [ticket for ticket, _ in holding.held] == [1, 1]
        for number in range(3):
            holding.held[number][1].set()
            await settled()
        assert [ticket for ticket, _ in holding.held] == [1, 1, 2, 1, 3]
        group.cancel_scope.cancel()
    assert slots._free == 2
    assert not slots._by_ticket
    assert not slots._line


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_is_cancelled_no_slot_is_lost_or_given_twice(seed):
    rng = np.random.default_rng(seed)
    total = int(rng.integers(1, 10))
    slots, under_way, most = Slots(total), 0, 0

    async def call(ticket, waits, leaves):
        nonlocal under_way, most
        with anyio.CancelScope() as scope:
            if leaves:
                group.start_soon(cut, scope, int(rng.integers(0, 6)))
            async with slots.one(ticket):
                under_way += 1
                most = max(most, under_way)
                try:
                    for _ in range(waits):
                        await anyio.lowlevel.checkpoint()
                finally:
                    under_way -= 1

    async def cut(scope, after):
        for _ in range(after):
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(call, int(rng.integers(1, 4)), int(rng.integers(0, 5)), bool(rng.integers(2)))
    assert most <= total
    assert (slots._free, dict(slots._by_ticket), list(slots._line)) == (total, {}, [])


async def test_a_box_whose_calls_all_hang_leaves_slots_for_another():
    def answer(path, body):
        return HANG if body.get("stop") == "odd" else said(200, OK)

    async with (
        picky(answer) as (_, model),
        opened(model, concurrency=8) as gate,
        client_of(gate, Caller(1)) as one,
        client_of(gate, Caller(2)) as other,
        anyio.create_task_group() as group,
    ):
        for number in range(20):
            body = {**CHAT, "stop": "odd", "temperature": number / 100}
            group.start_soon(lambda body: one.post("/v1/chat/completions", json=body), body)
        await anyio.sleep(0.3)
        with anyio.fail_after(5):
            for number in range(5):
                reply = await other.post("/v1/chat/completions", json={**CHAT, "temperature": number / 100})
                assert reply.status_code == 200
        group.cancel_scope.cancel()
