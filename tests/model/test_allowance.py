"""Hard budgets: never over, at any concurrency, over many randomised runs, and over kills."""

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model.gateways import CHAT, client_of, opened

from harness.errors import BudgetError
from harness.model.allowance import Allowance
from harness.model.base import TASK, Caller
from harness.model.pricing import listed, price_of
from harness.policy.schema import BudgetPolicy, ModelPolicy
from harness.records import ModelCall, Spend
from harness.testing.scripted_model import ScriptedModel

CALLERS = 64
RUNS = 1000


async def contended(seed):
    """64 callers draw on random limits until they are refused; the most that was ever taken of each kind."""
    rng = np.random.default_rng(seed)
    limits = [int(rng.integers(1, 400)) for _ in range(4)]
    allowance = Allowance(*limits)
    peak = [0, 0, 0, 0]

    async def caller(draw):
        while True:
            worst = Spend(1, *(int(amount) for amount in draw.integers(1, 40, 3)))
            try:
                allowance.reserve(worst)
            except BudgetError:
                return
            for place, kind in enumerate(("requests", "tokens_in", "tokens_out", "nano_usd")):
                taken = getattr(allowance.used, kind) + getattr(allowance.held, kind)
                peak[place] = max(peak[place], taken)
            for _ in range(int(draw.integers(0, 3))):
                await anyio.lowlevel.checkpoint()
            share = draw.uniform(0, 1, 3)
            spent = [
                int(part * whole)
                for part, whole in zip(share, (worst.tokens_in, worst.tokens_out, worst.nano_usd), strict=True)
            ]
            allowance.settle(Caller(1), worst, Spend(1, *spent))

    async with anyio.create_task_group() as group:
        for stream in rng.spawn(CALLERS):
            group.start_soon(caller, stream)
    return limits, peak, allowance


async def test_64_callers_never_pass_a_budget_over_1000_randomised_runs():
    for seed in range(RUNS):
        limits, peak, allowance = await contended(seed)
        assert all(most <= limit for most, limit in zip(peak, limits, strict=True)), seed
        assert allowance.held == Spend()
        assert allowance.overrun == Spend()


@pytest.mark.parametrize("kind", ["requests", "tokens_in", "tokens_out", "usd"])
async def test_64_clients_over_http_never_pass_a_budget(kind):
    limit = {"requests": 23, "tokens_in": 400, "tokens_out": 100, "usd": 0.003}[kind]
    async with (
        ScriptedModel("one two three", delay_s=0.01) as model,
        opened(model, budget={kind: limit}, price={"input": 2, "output": 10}, max_output_tokens=8) as server,
        client_of(server) as client,
    ):
        statuses = []

        async def one(number):
            for turn in range(2):
                body = {**CHAT, "temperature": (number * 2 + turn) / 1000}
                statuses.append((await client.post("/v1/chat/completions", json=body)).status_code)

        async with anyio.create_task_group() as group:
            for number in range(CALLERS):
                group.start_soon(one, number)
        usage = server.gateway.usage()[kind]
    assert set(statuses) == {200, 429}
    assert 0 < usage.used <= limit
    assert statuses.count(200) == model.served.requests
    assert server.gateway.allowance.used.tokens_out == model.served.tokens_out


async def test_a_call_that_does_not_fit_for_what_others_hold_waits_for_them():
    async with (
        ScriptedModel("one two three", delay_s=0.01) as model,
        opened(model, budget={"tokens_out": 48 + 3 * 20}, max_output_tokens=48) as server,
        client_of(server) as client,
    ):
        statuses = []

        async def one(number):
            body = {**CHAT, "temperature": number / 1000}
            statuses.append((await client.post("/v1/chat/completions", json=body)).status_code)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)
    assert statuses == [200] * 20
    assert model.served.tokens_out == 60


class Half:
    """Everyone but the vault leaves so much."""

    def __init__(self, kept):
        self.kept = kept

    def of(self, caller):
        return Spend() if "/vault/" in caller.variant else self.kept

    def ends(self, caller, error):
        return True


KINDS = ("requests", "tokens_in", "tokens_out", "nano_usd")


async def drawn(allowance, keeps, caller, draw, peaks):
    """Call until refused; `peaks` are told the most that was ever taken, used and held together."""
    while True:
        worst = Spend(1, *(int(amount) for amount in draw.integers(1, 40, 3)))
        try:
            await allowance.hold(worst, lambda: keeps.of(caller))
        except BudgetError:
            return
        for place, kind in enumerate(KINDS):
            peaks[place] = max(peaks[place], getattr(allowance.used, kind) + getattr(allowance.held, kind))
        for _ in range(int(draw.integers(0, 3))):
            await anyio.lowlevel.checkpoint()
        parts = [int(draw.uniform(0, 1) * getattr(worst, kind)) for kind in KINDS[1:]]
        allowance.settle(caller, worst, Spend(1, *parts))


async def test_what_is_kept_for_the_vault_is_left_by_64_searchers_and_never_passed_by_the_vault():
    """Search callers never pass limit - share, the vault never passes the limit, also while both are under way."""
    search, vault = Caller(1, TASK, "t/screen/visible/0"), Caller(0, TASK, "t/vault/vault/0")
    for seed in range(150):
        rng = np.random.default_rng(seed)
        limits = [int(rng.integers(50, 400)) for _ in KINDS]
        kept = Spend(*(int(rng.integers(1, 40)) for _ in KINDS))
        allowance, keeps = Allowance(*limits), Half(kept)
        alone, both = [0, 0, 0, 0], [0, 0, 0, 0]
        async with anyio.create_task_group() as group:
            for draw in rng.spawn(CALLERS):
                group.start_soon(drawn, allowance, keeps, search, draw, alone)
        free = [limit - getattr(kept, kind) for limit, kind in zip(limits, KINDS, strict=True)]
        assert all(most <= room for most, room in zip(alone, free, strict=True)), seed
        before = allowance.used
        async with anyio.create_task_group() as group:
            for number, draw in enumerate(rng.spawn(CALLERS)):
                who = vault if number % 2 else search
                group.start_soon(drawn, allowance, keeps, who, draw, both)
        assert all(most <= limit for most, limit in zip(both, limits, strict=True)), seed
        assert allowance.held == Spend()
        assert allowance.overrun == Spend()
        assert allowance.used.requests >= before.requests
        spent = [taken.spent for taken in allowance.by_maker.values()]
        assert sum(spent, Spend()) == allowance.used


async def test_what_the_search_left_is_enough_for_the_vault():
    allowance, keeps = Allowance(tokens_out=100), Half(Spend(0, 0, 30))
    search, vault = Caller(1, TASK, "t/screen/visible/0"), Caller(0, TASK, "t/vault/vault/0")
    for _ in range(7):
        await allowance.hold(Spend(1, 0, 10), lambda: keeps.of(search))
        allowance.settle(search, Spend(1, 0, 10), Spend(1, 0, 10))
    with pytest.raises(BudgetError, match=r"70 of 100 used \(30 kept for the vault\), 1 more refused"):
        await allowance.hold(Spend(1, 0, 1), lambda: keeps.of(search))
    for _ in range(3):
        await allowance.hold(Spend(1, 0, 10), lambda: keeps.of(vault))
        allowance.settle(vault, Spend(1, 0, 10), Spend(1, 0, 10))
    with pytest.raises(BudgetError, match="100 of 100 used, 1 more refused"):
        await allowance.hold(Spend(1, 0, 1), lambda: keeps.of(vault))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=40), st.integers(0, 300))
def test_used_and_held_never_pass_the_limit(calls, limit):
    allowance = Allowance(tokens_in=limit)
    for worst, spent in calls:
        try:
            allowance.reserve(Spend(1, worst))
        except BudgetError as error:
            assert error.used + error.asked > limit  # noqa: PT017 - the amounts are the point
            continue
        assert allowance.used.tokens_in + allowance.held.tokens_in <= limit
        allowance.settle(Caller(1, TASK), Spend(1, worst), Spend(1, min(worst, spent)))
    assert allowance.held.tokens_in == 0


def test_more_than_was_asked_for_is_counted_in_full_and_ends_the_budget():
    allowance = Allowance(tokens_out=100)
    allowance.reserve(Spend(1, 0, 60))
    allowance.settle(Caller(1, TASK), Spend(1, 0, 60), Spend(1, 0, 170))
    assert (allowance.used.tokens_out, allowance.overrun.tokens_out) == (170, 110)
    with pytest.raises(BudgetError):
        allowance.reserve(Spend(1, 0, 1))


def test_what_a_crash_left_held_counts_in_full():
    allowance = Allowance.of(BudgetPolicy(usd=1.0))
    spent, held = Spend(2, 10, 20, 300_000_000), Spend(1, 50, 60, 600_000_000)
    allowance.restore([ModelCall(1, "proposer", 0, "d", "m", "chat", "v", held, spent, None)])
    assert allowance.usage()["usd"].used == pytest.approx(0.9)
    with pytest.raises(BudgetError, match=r"0.9 of 1 used, 0.2 more refused: .* and 1.1 is the smallest limit"):
        allowance.reserve(Spend(1, 0, 0, 200_000_000))


def test_prices_are_found_by_name_by_date_and_not_by_accident():
    assert listed("gpt-4o").output == 10.0
    assert listed("gpt-4o-2024-08-06") == listed("gpt-4o")
    assert listed("openai/gpt-4o") == listed("gpt-4o")
    assert listed("gpt-4o-mini").output < 1
    assert listed("gpt-4o-something") is None
    assert listed("qwen2.5-coder") is None
    assert listed("gpt-4o").dated
    given = ModelPolicy(base_url="http://x/v1", price={"input": 1, "output": 2})
    assert price_of("gpt-4o", given, needed=True).most(1_000_000, 1_000_000) == 3_000_000_000
